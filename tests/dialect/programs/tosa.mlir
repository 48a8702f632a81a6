func.func @f(%a: tensor<2x4x8xf32>, %b: tensor<2x8x3xf32>, %z: tensor<1xf32>) -> tensor<2x4x3xf32> {
  %0 = tosa.abs %a : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %1 = tosa.matmul %0, %b, %z, %z : (tensor<2x4x8xf32>, tensor<2x8x3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x4x3xf32>
  %2 = tosa.sigmoid %1 : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %3 = tosa.clamp %2 {max_val = 6.0 : f32, min_val = 0.0 : f32} : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %4 = "tosa.const"() <{values = dense<1.0> : tensor<2x4x3xf32>}> : () -> tensor<2x4x3xf32>
  %5 = tosa.add %3, %4 : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %6 = tosa.reduce_sum %5 {axis = 1 : i32} : (tensor<2x4x3xf32>) -> tensor<2x1x3xf32>
  %7 = tosa.transpose %6 {perms = array<i32: 1, 0, 2>} : (tensor<2x1x3xf32>) -> tensor<1x2x3xf32>
  %sh = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %8 = tosa.reshape %7, %sh : (tensor<1x2x3xf32>, !tosa.shape<2>) -> tensor<2x3xf32>
  return %5 : tensor<2x4x3xf32>
}

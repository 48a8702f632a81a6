func.func @mlp(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>, %p: tensor<2x4x32xi1>) -> tensor<2x4x8xf32> {
  %1 = "mhlo.dot_general"(%arg0, %arg1) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision DEFAULT>, #mhlo<precision DEFAULT>]} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %2 = mhlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
  %3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
  %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, HIGHEST] : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
  %b = stablehlo.dot_general %3, %3, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x4x32xf32>, tensor<2x4x32xf32>) -> tensor<2x4x4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [2] : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %bc = stablehlo.broadcast_in_dim %r, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x4xf32>
  %c = stablehlo.compare LT, %b, %bc, FLOAT : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xi1>
  %s = stablehlo.select %c, %b, %bc : tensor<2x4x4xi1>, tensor<2x4x4xf32>
  %t = stablehlo.transpose %s, dims = [0, 2, 1] : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %rs = stablehlo.reshape %t : (tensor<2x4x4xf32>) -> tensor<32xf32>
  %sl = stablehlo.slice %rs [0:20:2] : (tensor<32xf32>) -> tensor<10xf32>
  %cc = stablehlo.concatenate %rs, %sl, dim = 0 : (tensor<32xf32>, tensor<10xf32>) -> tensor<42xf32>
  %io = stablehlo.iota dim = 0 : tensor<42xi32>
  %cv = stablehlo.convert %io : (tensor<42xi32>) -> tensor<42xf32>
  %e = stablehlo.exponential %cv : tensor<42xf32>
  %r2 = "stablehlo.reduce"(%b, %z) <{dimensions = array<i64: 1>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %m = stablehlo.maximum %x, %y : tensor<f32>
      stablehlo.return %m : tensor<f32>
  }) : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %4 : tensor<2x4x8xf32>
}

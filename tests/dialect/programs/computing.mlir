#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
shard.grid @grid0(shape = 2x3)
func.func @g(%a: tensor<4x6xf32>, %b: tensor<6x8xf32>, %n: index, %c: i1) -> tensor<4x8xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  %e2 = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%m : tensor<4x8xf32>) outs(%e2 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  %red = linalg.reduce ins(%m : tensor<4x8xf32>) outs(%e2 : tensor<4xf32>) dimensions = [1]
    (%in: f32, %init: f32) {
      %6 = arith.addf %in, %init : f32
      linalg.yield %6 : f32
    }
  %add = linalg.add ins(%m, %m : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %sl = tensor.extract_slice %m[0, %n] [2, 4] [1, 1] : tensor<4x8xf32> to tensor<2x4xf32>
  %in2 = tensor.insert_slice %sl into %m[0, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<4x8xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d = tensor.dim %m, %c0 : tensor<4x8xf32>
  %col = tensor.collapse_shape %m [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %exp = tensor.expand_shape %col [[0, 1]] output_shape [4, 8] : tensor<32xf32> into tensor<4x8xf32>
  %spl = tensor.splat %z : tensor<4x8xf32>
  %loop = scf.for %i = %c0 to %d step %c1 iter_args(%acc = %m) -> (tensor<4x8xf32>) {
    %x = arith.addf %acc, %acc : tensor<4x8xf32>
    scf.yield %x : tensor<4x8xf32>
  }
  %if = scf.if %c -> (tensor<4x8xf32>) {
    scf.yield %loop : tensor<4x8xf32>
  } else {
    scf.yield %m : tensor<4x8xf32>
  }
  %cst = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %cst2 = arith.constant dense<0x7FC00000> : tensor<4xf32>
  %e3 = tensor.empty() : tensor<8x4xf32>
  %t = linalg.transpose ins(%m : tensor<4x8xf32>) outs(%e3 : tensor<8x4xf32>) permutation = [1, 0]
  %bc = linalg.broadcast ins(%r : tensor<4xf32>) outs(%m : tensor<4x8xf32>) dimensions = [1]
  %cmp = arith.cmpf olt, %z, %z : f32
  %sel = arith.select %cmp, %z, %z : f32
  %tanh = math.tanh %m : tensor<4x8xf32>
  %ex = tensor.extract %m[%c0, %c1] : tensor<4x8xf32>
  %call = func.call @h(%ex) : (f32) -> f32
  %cast = tensor.cast %m : tensor<4x8xf32> to tensor<?x8xf32>
  %al = memref.alloc() : memref<4x4xf32>
  return %if : tensor<4x8xf32>
}
func.func private @h(%x: f32) -> f32 {
  return %x : f32
}

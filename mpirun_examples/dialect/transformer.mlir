// A transformer block on a grid of 2x2 devices: the batch is cut by axis 0, heads and hidden units by axis 1.
//
//   python -m spmd_grid run transformer.mlir --check serial --quiet
//   mpiexec -n 4 python -m spmd_grid run transformer.mlir --check serial --quiet
//
// Batch 2, 6 tokens, 4 heads of 3 features each, 24 hidden units.

shard.grid @grid0(shape = 2x2)

func.func @block(%arg0: tensor<2x6x12xf32>, %wq: tensor<12x4x3xf32>, %wk: tensor<12x4x3xf32>, %wv: tensor<12x4x3xf32>, %wo: tensor<4x3x12xf32>, %w1: tensor<12x24xf32>, %w2: tensor<24x12xf32>) -> tensor<2x6x12xf32> {
  %batch = shard.sharding @grid0 split_axes = [[0]] : !shard.sharding
  %heads = shard.sharding @grid0 split_axes = [[], [1]] : !shard.sharding
  %x = shard.shard %arg0 to %batch : tensor<2x6x12xf32>
  %q_weights = shard.shard %wq to %heads : tensor<12x4x3xf32>
  %hidden = shard.shard %w1 to %heads : tensor<12x24xf32>

  %q = stablehlo.dot_general %x, %q_weights, contracting_dims = [2] x [0] : (tensor<2x6x12xf32>, tensor<12x4x3xf32>) -> tensor<2x6x4x3xf32>
  %k = stablehlo.dot_general %x, %wk, contracting_dims = [2] x [0] : (tensor<2x6x12xf32>, tensor<12x4x3xf32>) -> tensor<2x6x4x3xf32>
  %v = stablehlo.dot_general %x, %wv, contracting_dims = [2] x [0] : (tensor<2x6x12xf32>, tensor<12x4x3xf32>) -> tensor<2x6x4x3xf32>
  %scores = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x6x4x3xf32>, tensor<2x6x4x3xf32>) -> tensor<2x4x6x6xf32>
  %scale = stablehlo.constant dense<0.57735> : tensor<2x4x6x6xf32>
  %scaled = stablehlo.multiply %scores, %scale : tensor<2x4x6x6xf32>

  %e = tensor.empty() : tensor<2x4x6xf32>
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %lows = linalg.fill ins(%low : f32) outs(%e : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %most = linalg.generic {
    indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>, affine_map<(b, h, i, j) -> (b, h, i)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%scaled : tensor<2x4x6x6xf32>) outs(%lows : tensor<2x4x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.maximumf %out, %in : f32
    linalg.yield %m : f32
  } -> tensor<2x4x6xf32>
  %e4 = tensor.empty() : tensor<2x4x6x6xf32>
  %exps = linalg.generic {
    indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>, affine_map<(b, h, i, j) -> (b, h, i)>, affine_map<(b, h, i, j) -> (b, h, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%scaled, %most : tensor<2x4x6x6xf32>, tensor<2x4x6xf32>) outs(%e4 : tensor<2x4x6x6xf32>) {
  ^bb0(%in: f32, %m: f32, %out: f32):
    %d = arith.subf %in, %m : f32
    %p = math.exp %d : f32
    linalg.yield %p : f32
  } -> tensor<2x4x6x6xf32>
  %sums = linalg.generic {
    indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>, affine_map<(b, h, i, j) -> (b, h, i)>],
    iterator_types = ["parallel", "parallel", "parallel", "reduction"]
  } ins(%exps : tensor<2x4x6x6xf32>) outs(%zeros : tensor<2x4x6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %out, %in : f32
    linalg.yield %a : f32
  } -> tensor<2x4x6xf32>
  %weights = linalg.generic {
    indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>, affine_map<(b, h, i, j) -> (b, h, i)>, affine_map<(b, h, i, j) -> (b, h, i, j)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  } ins(%exps, %sums : tensor<2x4x6x6xf32>, tensor<2x4x6xf32>) outs(%e4 : tensor<2x4x6x6xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %p = arith.divf %in, %s : f32
    linalg.yield %p : f32
  } -> tensor<2x4x6x6xf32>

  %mixed = stablehlo.dot_general %weights, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<2x4x6x6xf32>, tensor<2x6x4x3xf32>) -> tensor<2x4x6x3xf32>
  %out = stablehlo.dot_general %mixed, %wo, contracting_dims = [1, 3] x [0, 1] : (tensor<2x4x6x3xf32>, tensor<4x3x12xf32>) -> tensor<2x6x12xf32>
  %y = stablehlo.add %x, %out : tensor<2x6x12xf32>

  %h = stablehlo.dot_general %y, %hidden, contracting_dims = [2] x [0] : (tensor<2x6x12xf32>, tensor<12x24xf32>) -> tensor<2x6x24xf32>
  %none = stablehlo.constant dense<0.0> : tensor<2x6x24xf32>
  %relu = stablehlo.maximum %h, %none : tensor<2x6x24xf32>
  %f = stablehlo.dot_general %relu, %w2, contracting_dims = [2] x [0] : (tensor<2x6x24xf32>, tensor<24x12xf32>) -> tensor<2x6x12xf32>
  %z = stablehlo.add %y, %f : tensor<2x6x12xf32>
  %result = shard.shard %z to %batch annotate_for_users : tensor<2x6x12xf32>
  return %result : tensor<2x6x12xf32>
}

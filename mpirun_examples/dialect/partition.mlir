// What the compiler's own tests of its partition pass do, as functions that run.
//
//   python -m spmd_grid run partition.mlir --main matmul_sums --check serial
//   python -m spmd_grid run partition.mlir --main elementwise --emit partitioned

shard.grid @grid_1d(shape = 2)

func.func @elementwise(%arg0: tensor<6x5xf32>) -> tensor<6x5xf32> {
  %s = shard.sharding @grid_1d split_axes = [[0]] : !shard.sharding
  %x = shard.shard %arg0 to %s : tensor<6x5xf32>
  %y = math.absf %x : tensor<6x5xf32>
  %z = math.exp %y : tensor<6x5xf32>
  return %z : tensor<6x5xf32>
}

// Blocks that differ in extent, which the compiler's pass refuses.
func.func @uneven(%arg0: tensor<7x5xf32>) -> tensor<7x5xf32> {
  %s = shard.sharding @grid_1d split_axes = [[0]] : !shard.sharding
  %x = shard.shard %arg0 to %s : tensor<7x5xf32>
  %y = arith.negf %x : tensor<7x5xf32>
  return %y : tensor<7x5xf32>
}

// A contracted dimension that is cut: every device finds a part of the sums, and all_reduce combines them.
func.func @matmul_sums(%arg0: tensor<4x6xf32>, %arg1: tensor<6x8xf32>, %init: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s0 = shard.sharding @grid_1d split_axes = [[], [0]] : !shard.sharding
  %s1 = shard.sharding @grid_1d split_axes = [[0]] : !shard.sharding
  %a = shard.shard %arg0 to %s0 : tensor<4x6xf32>
  %b = shard.shard %arg1 to %s1 : tensor<6x8xf32>
  %r = linalg.matmul ins(%a, %b : tensor<4x6xf32>, tensor<6x8xf32>) outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

func.func @generic_transpose(%arg0: tensor<4x6xf64>) -> tensor<6x4xf64> {
  %s = shard.sharding @grid_1d split_axes = [[], [0]] : !shard.sharding
  %x = shard.shard %arg0 to %s : tensor<4x6xf64>
  %e = tensor.empty() : tensor<6x4xf64>
  %r = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1, d0)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : tensor<4x6xf64>) outs(%e : tensor<6x4xf64>) {
  ^bb0(%in: f64, %out: f64):
    %t = math.tanh %in : f64
    linalg.yield %t : f64
  } -> tensor<6x4xf64>
  return %r : tensor<6x4xf64>
}

// The second array is spread as the first is.
func.func @alike(%arg0: tensor<6x4xf64>, %arg1: tensor<6x4xf64>) -> tensor<6x4xf64> {
  %columns = shard.sharding @grid_1d split_axes = [[], [0]] : !shard.sharding
  %x = shard.shard %arg0 to %columns : tensor<6x4xf64>
  %same = shard.get_sharding %x : tensor<6x4xf64> -> !shard.sharding
  %y = shard.shard %arg1 to %same : tensor<6x4xf64>
  %r = arith.subf %x, %y : tensor<6x4xf64>
  return %r : tensor<6x4xf64>
}

// A sum over rows with an initial value, which is added once.
func.func @generic_sums(%arg0: tensor<8x6xf64>, %init: tensor<6xf64>) -> tensor<6xf64> {
  %s = shard.sharding @grid_1d split_axes = [[0]] : !shard.sharding
  %x = shard.shard %arg0 to %s : tensor<8x6xf64>
  %r = linalg.generic {
    indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>],
    iterator_types = ["reduction", "parallel"]
  } ins(%x : tensor<8x6xf64>) outs(%init : tensor<6xf64>) {
  ^bb0(%in: f64, %out: f64):
    %square = arith.mulf %in, %in : f64
    %sum = arith.addf %out, %square : f64
    linalg.yield %sum : f64
  } -> tensor<6xf64>
  return %r : tensor<6xf64>
}

// The multilayer perceptron of the RFC, one-dimensional and weight stationary: activations come and go cut along their
// last dimension, and weights stay where they are.
//
//   python -m spmd_grid run mlp.mlir --check serial
//   python -m spmd_grid run mlp.mlir --emit optimised
//
// The first product takes the activations whole, which an all_gather makes of them; the sums of the second are combined
// and cut again by a reduce_scatter.

shard.grid @grid0(shape = 2)

func.func @mlp(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32> {
  %columns = shard.sharding @grid0 split_axes = [[], [], [0]] : !shard.sharding
  %whole = shard.sharding @grid0 split_axes = [[]] : !shard.sharding
  %weights = shard.sharding @grid0 split_axes = [[], [0]] : !shard.sharding
  %rows = shard.sharding @grid0 split_axes = [[0]] : !shard.sharding
  %x = shard.shard %arg0 to %columns : tensor<2x4x8xf32>
  %0 = shard.shard %x to %whole annotate_for_users : tensor<2x4x8xf32>
  %w = shard.shard %arg1 to %weights : tensor<8x32xf32>
  %v = shard.shard %arg2 to %rows : tensor<32x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [2] x [0] : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<2x4x32xf32>
  %3 = stablehlo.maximum %1, %2 : tensor<2x4x32xf32>
  %4 = stablehlo.dot_general %3, %v, contracting_dims = [2] x [0] : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
  %sums = shard.shard %4 to %whole : tensor<2x4x8xf32>
  %5 = shard.shard %sums to %columns annotate_for_users : tensor<2x4x8xf32>
  return %5 : tensor<2x4x8xf32>
}

// The annotations that the dialect's own documentation shows, in functions that run.
//
//   python -m spmd_grid run annotations.mlir --main offsets --check serial
//   mpiexec -n 4 python -m spmd_grid run annotations.mlir --main several_users --check serial
//
// The operations that the documentation leaves open are absf and exp here.

shard.grid @grid0(shape = 2x2x4)
shard.grid @grid1d_4(shape = 4)
shard.grid @grid2d(shape = 2x2)

// Every device of grid0 has the whole tensor.
func.func @replicated(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %sharding0 = shard.sharding @grid0 split_axes = [[]] : !shard.sharding
  %0 = shard.shard %arg0 to %sharding0 : tensor<4x8xf32>
  %1 = math.absf %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The first dimension is cut along axis 0 of grid0; the result is annotated.
func.func @only_result_annotated(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %sharding1 = shard.sharding @grid0 split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %arg0 to %sharding1 : tensor<4x8xf32>
  %1 = math.absf %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

func.func @only_operand_annotated(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %sharding = shard.sharding @grid1d_4 split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %arg0 to %sharding annotate_for_users : tensor<4x8xf32>
  %1 = math.absf %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

func.func @two_operands_annotated(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xf32>) -> (tensor<4x8xf32>, tensor<16x8xf32>) {
  %sharding = shard.sharding @grid1d_4 split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %arg0 to %sharding annotate_for_users : tensor<4x8xf32>
  %1 = shard.shard %arg1 to %sharding annotate_for_users : tensor<16x8xf32>
  %2 = math.absf %0 : tensor<4x8xf32>
  %3 = math.exp %1 : tensor<16x8xf32>
  return %2, %3 : tensor<4x8xf32>, tensor<16x8xf32>
}

// The argument has one sharding, and each of its users wants another.
func.func @several_users(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %sharding = shard.sharding @grid2d split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %arg0 to %sharding : tensor<4x8xf32>
  %sharding1 = shard.sharding @grid2d split_axes = [[1]] : !shard.sharding
  %1 = shard.shard %0 to %sharding1 annotate_for_users : tensor<4x8xf32>
  %sharding2 = shard.sharding @grid2d split_axes = [[], [0, 1]] : !shard.sharding
  %2 = shard.shard %0 to %sharding2 annotate_for_users : tensor<4x8xf32>
  %3 = math.absf %1 : tensor<4x8xf32>
  %4 = math.exp %2 : tensor<4x8xf32>
  return %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Halos of 1 and 2 around the blocks of the first dimension.
func.func @halos(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %halo_sharding = shard.sharding @grid1d_4 split_axes = [[0]] halo_sizes = [1, 2] : !shard.sharding
  %sharded1 = shard.shard %arg0 to %halo_sharding : tensor<8x8xf32>
  %1 = math.absf %sharded1 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// Blocks of 4x2, 4x3, 4x4 and 4x5 cells.
func.func @offsets(%arg0: tensor<4x14xf32>) -> tensor<4x14xf32> {
  %sharding4 = shard.sharding @grid1d_4 split_axes = [[], [0]] sharded_dims_offsets = [0, 2, 5, 9, 14] : !shard.sharding
  %sharded2 = shard.shard %arg0 to %sharding4 : tensor<4x14xf32>
  %1 = math.absf %sharded2 : tensor<4x14xf32>
  return %1 : tensor<4x14xf32>
}

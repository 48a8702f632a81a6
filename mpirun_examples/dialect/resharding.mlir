// Reshardings that the compiler's own pass refuses, or gets wrong in silence.  They run right here, and a note says
// what the compiler's pass would have done.
//
//   python -m spmd_grid run resharding.mlir --main to_a_lower_dimension --check serial
//   python -m spmd_grid run resharding.mlir --main swap --check serial

shard.grid @grid0(shape = 2x3)

// The types of all_slice and all_gather agree, the data do not.
func.func @to_a_lower_dimension(%arg0: tensor<6x6xi32>) -> tensor<6x6xi32> {
  %columns = shard.sharding @grid0 split_axes = [[], [0]] : !shard.sharding
  %rows = shard.sharding @grid0 split_axes = [[0], []] : !shard.sharding
  %0 = shard.shard %arg0 to %columns : tensor<6x6xi32>
  %1 = shard.shard %0 to %rows annotate_for_users : tensor<6x6xi32>
  return %1 : tensor<6x6xi32>
}

// Two dimensions exchange their axes.
func.func @swap(%arg0: tensor<12x12xi32>) -> tensor<12x12xi32> {
  %s = shard.sharding @grid0 split_axes = [[0], [1]] : !shard.sharding
  %t = shard.sharding @grid0 split_axes = [[1], [0]] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<12x12xi32>
  %1 = shard.shard %0 to %t annotate_for_users : tensor<12x12xi32>
  return %1 : tensor<12x12xi32>
}

// The order of the axes of one dimension.
func.func @order(%arg0: tensor<6xi32>) -> tensor<6xi32> {
  %s = shard.sharding @grid0 split_axes = [[0, 1]] : !shard.sharding
  %t = shard.sharding @grid0 split_axes = [[1, 0]] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<6xi32>
  %1 = shard.shard %0 to %t annotate_for_users : tensor<6xi32>
  return %1 : tensor<6xi32>
}

// Extents that are no multiple of the number of shards, and offsets that say where shards begin.
func.func @offsets(%arg0: tensor<4x14xi32>) -> tensor<4x14xi32> {
  %s = shard.sharding @grid0 split_axes = [[], [1]] sharded_dims_offsets = [0, 2, 5, 14] : !shard.sharding
  %t = shard.sharding @grid0 split_axes = [[1], [0]] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<4x14xi32>
  %1 = shard.shard %0 to %t annotate_for_users : tensor<4x14xi32>
  return %1 : tensor<4x14xi32>
}

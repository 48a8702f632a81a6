// Where a device stands, what it holds, and who its neighbours are, on a grid of 2x3.
//
//   python -m spmd_grid run indices.mlir --check serial

shard.grid @grid0(shape = 2x3)

func.func @main() -> (index, index, index, index, index, index, index, index) {
  %linear = shard.process_linear_index on @grid0 : index
  %column, %row = shard.process_multi_index on @grid0 axes = [1, 0] : index, index
  %columns = shard.grid_shape @grid0 axes = [1] : index
  %down, %up = shard.neighbors_linear_indices on @grid0[%row, %column] split_axes = [1] : index, index
  %s = shard.sharding @grid0 split_axes = [[0], [1]] : !shard.sharding
  %n, %m = shard.shard_shape dims = [7, 11] sharding = %s device = [%row, %column] : index, index
  return %linear, %row, %column, %columns, %down, %up, %n, %m : index, index, index, index, index, index, index, index
}

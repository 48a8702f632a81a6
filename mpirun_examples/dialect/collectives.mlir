// The examples of the dialect's own documentation, with their numbers; most are on a grid of 2x2 devices.
//
//   python -m spmd_grid run collectives.mlir --main all_gather --check serial
//   mpiexec -n 4 python -m spmd_grid run collectives.mlir --main reduce_scatter --check serial
//
// Every function has local types: it runs as it stands on every device.

shard.grid @grid0(shape = 2x2)
shard.grid @grid1(shape = 4x3)

// Device (0, 0) holds [1 2; 3 4], (0, 1) holds [5 6; 7 8], (1, 0) holds [9 10; 11 12], (1, 1) holds [13 14; 15 16].
func.func private @block() -> tensor<2x2xi8> {
  %all = arith.constant dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [[[9, 10], [11, 12]], [[13, 14], [15, 16]]]]> : tensor<2x2x2x2xi8>
  %i, %j = shard.process_multi_index on @grid0 : index, index
  %x = tensor.extract_slice %all[%i, %j, 0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<2x2x2x2xi8> to tensor<2x2xi8>
  return %x : tensor<2x2xi8>
}

func.func @all_gather() -> tensor<2x4xi8> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %1 = shard.all_gather %x on @grid0 grid_axes = [1] gather_axis = 1 : tensor<2x2xi8> -> tensor<2x4xi8>
  return %1 : tensor<2x4xi8>
}

// The inverse of all_gather: it needs no communication.
func.func @all_slice() -> tensor<2x2xi8> {
  %0 = func.call @all_gather() : () -> tensor<2x4xi8>
  %1 = shard.all_slice %0 on @grid0 grid_axes = [1] slice_axis = 1 : tensor<2x4xi8> -> tensor<2x2xi8>
  return %1 : tensor<2x2xi8>
}

func.func @broadcast() -> tensor<2x2xi8> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %1 = shard.broadcast %x on @grid0 grid_axes = [0] root = [0] : (tensor<2x2xi8>) -> tensor<2x2xi8>
  return %1 : tensor<2x2xi8>
}

// Devices (0, 0) and (1, 0) have no result.
func.func @gather() -> tensor<2x4xi8> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %1 = shard.gather %x on @grid0 grid_axes = [1] gather_axis = 1 root = [1] : (tensor<2x2xi8>) -> tensor<2x4xi8>
  return %1 : tensor<2x4xi8>
}

func.func @scatter() -> tensor<1x2xi8> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %1 = shard.scatter %x on @grid0 grid_axes = [0] scatter_dim = 0 root = [1] : (tensor<2x2xi8>) -> tensor<1x2xi8>
  return %1 : tensor<1x2xi8>
}

// Elements are converted to the type of the result before they are reduced: the sum does not wrap.
func.func @all_reduce() -> tensor<2x2xi16> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %c = arith.constant dense<9> : tensor<2x2xi8>
  %y = arith.muli %x, %c : tensor<2x2xi8>
  %1 = shard.all_reduce %y on @grid0 grid_axes = [1, 0] : tensor<2x2xi8> -> tensor<2x2xi16>
  return %1 : tensor<2x2xi16>
}

func.func @reduce() -> tensor<2x2xi16> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %1 = shard.reduce %x on @grid0 grid_axes = [1, 0] reduction = product root = [1, 0] : (tensor<2x2xi8>) -> tensor<2x2xi16>
  return %1 : tensor<2x2xi16>
}

func.func @reduce_scatter() -> tensor<1x2xi16> {
  %x = func.call @block() : () -> tensor<2x2xi8>
  %1 = shard.reduce_scatter %x on @grid0 grid_axes = [1] scatter_dim = 0 : tensor<2x2xi8> -> tensor<1x2xi16>
  return %1 : tensor<1x2xi16>
}

// The next two are on 12 devices: the root has coordinate 2 on axis 1, and 3 on axis 0.
func.func @all_reduce_max(%0: tensor<3x4xf32>) -> tensor<3x4xf64> {
  %1 = shard.all_reduce %0 on @grid1 grid_axes = [1, 0] reduction = max : tensor<3x4xf32> -> tensor<3x4xf64>
  return %1 : tensor<3x4xf64>
}

func.func @reduce_max(%0: tensor<3x4xf32>) -> tensor<3x4xf64> {
  %1 = shard.reduce %0 on @grid1 grid_axes = [1, 0] reduction = max root = [2, 3] : (tensor<3x4xf32>) -> tensor<3x4xf64>
  return %1 : tensor<3x4xf64>
}

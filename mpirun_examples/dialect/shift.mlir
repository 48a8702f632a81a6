// Shifts along the second axis of a grid of 2x4 devices: data of coordinate i goes to i + offset.
//
//   python -m spmd_grid run shift.mlir --check serial
//
// The first result is the documentation's rotation by 2, which cannot tell left from right; the second, by 1, can.  In
// the third, without rotate, devices (0, 0) and (1, 0) have no source, and so no result.

shard.grid @grid0(shape = 2x4)

func.func @main() -> (tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) {
  %i = shard.process_linear_index on @grid0 : index
  %c1 = arith.constant 1 : index
  %n = arith.addi %i, %c1 : index
  %b = arith.index_cast %n : index to i8
  %x = tensor.splat %b : tensor<1xi8>
  %1 = shard.shift %x on @grid0 grid_axes = [1] shift_axis = 1 offset = 2 rotate : tensor<1xi8> -> tensor<1xi8>
  %2 = shard.shift %x on @grid0 grid_axes = [1] shift_axis = 1 offset = 1 rotate : tensor<1xi8> -> tensor<1xi8>
  %3 = shard.shift %x on @grid0 grid_axes = [1] shift_axis = 1 offset = 1 : tensor<1xi8> -> tensor<1xi8>
  return %1, %2, %3 : tensor<1xi8>, tensor<1xi8>, tensor<1xi8>
}

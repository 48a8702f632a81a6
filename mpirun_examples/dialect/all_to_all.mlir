// The documentation's all_to_all on 3 devices: device 0 ends with 11 12, 21 22, 31 32.
//
//   python -m spmd_grid run all_to_all.mlir --check serial

shard.grid @grid0(shape = 3)

func.func @main() -> (tensor<3x2xi8>, tensor<1x6xi8>) {
  %all = arith.constant dense<[[[11, 12], [13, 14], [15, 16]], [[21, 22], [23, 24], [25, 26]], [[31, 32], [33, 34], [35, 36]]]> : tensor<3x3x2xi8>
  %i = shard.process_linear_index on @grid0 : index
  %x = tensor.extract_slice %all[%i, 0, 0] [1, 3, 2] [1, 1, 1] : tensor<3x3x2xi8> to tensor<3x2xi8>
  %1 = shard.all_to_all %x on @grid0 grid_axes = [0] split_axis = 0 concat_axis = 0 : tensor<3x2xi8> -> tensor<3x2xi8>
  %2 = shard.all_to_all %x on @grid0 grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<3x2xi8> -> tensor<1x6xi8>
  return %1, %2 : tensor<3x2xi8>, tensor<1x6xi8>
}

// The examples of single operations in the RFC of 2023, in its words, on a cluster of 2x2 devices.
//
//   python -m spmd_grid run rfc_operations.mlir --main all_reduce --check serial
//
// Tensors have their shardings as encodings; the list after those of the dimensions has the axes of sums that are not
// finished.  The RFC's op0, op1 and op2 are mhlo.abs, mhlo.exponential and mhlo.tanh here.

mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])

func.func @annotate(%arg0: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>) attributes { mesh_cluster = @mesh0 } {
  %0 = mhlo.abs %arg0 : tensor<2x5xf32>
  %1 = mesh.annotate %0 {sharding = [[0], [1]], required = true, as_result = true} : tensor<2x5xf32> -> tensor<2x5xf32>
  %2 = mesh.annotate %1 {sharding = [[0]], required = true, as_result = false} : tensor<2x5xf32> -> tensor<2x5xf32>
  %3 = mhlo.exponential %2 : tensor<2x5xf32>
  %4 = mesh.annotate %1 {sharding = [[1]], required = true, as_result = false} : tensor<2x5xf32> -> tensor<2x5xf32>
  %5 = mhlo.tanh %4 : tensor<2x5xf32>
  return %3, %5 : tensor<2x5xf32>, tensor<2x5xf32>
}

func.func @all_gather(%0: tensor<2x4xf32, #mesh.shard<[[0], [1]]>>) -> tensor<2x4xf32> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.all_gather %0 {mesh_axis = [[0], [1]]} : tensor<2x4xf32, #mesh.shard<[[0], [1]]>> -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

func.func @all_reduce(%0: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0, 1]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.all_reduce %0 {reduction = "sum", mesh_axis = [0]} : tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0, 1]]>> -> tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>>
  return %1 : tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>>
}

func.func @local_split(%0: tensor<2x4x8xf32, #mesh.shard<[[], [1], []]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.local_split %0 {sharding = [[], [], [0]]} : tensor<2x4x8xf32, #mesh.shard<[[], [1], []]>> -> tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>>
  return %1 : tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>>
}

func.func @reduce_scatter(%0: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.reduce_scatter %0 {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64} : tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>> -> tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
  return %1 : tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
}

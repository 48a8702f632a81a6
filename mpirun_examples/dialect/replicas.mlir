// Collectives of stablehlo, whose groups list processes by number: two replicas of a model in three partitions.
//
//   python -m spmd_grid run replicas.mlir --main step --check serial
//   python -m spmd_grid run replicas.mlir --main ring --check serial
//   mpiexec -n 6 python -m spmd_grid run replicas.mlir --main order --check serial
//
// A channel above 0 makes numbers those of partitions, use_global_device_ids those of all processes.

module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 3 : i32} {

// A product of which each partition has a part, and the mean of what both replicas have.
func.func @step(%x: tensor<4x2xf32>, %w: tensor<2x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %part = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x5xf32>) -> tensor<4x5xf32>
  %y = "stablehlo.all_reduce"(%part) <{
    replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %total = "stablehlo.all_reduce"(%y) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4x5xf32>
  %mean = stablehlo.divide %total, %two : tensor<4x5xf32>
  return %y, %mean : tensor<4x5xf32>, tensor<4x5xf32>
}

// Each partition gives its block to the next; the first gets zeros.
func.func @ring(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = "stablehlo.collective_permute"(%x) <{
    source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
  }> : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// A body that is no reduction of the engine's own: the number with the larger last digit.
func.func @digits(%x: tensor<3xi32>) -> tensor<3xi32> {
  %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<> : tensor<0x0xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %i = stablehlo.remainder %a, %ten : tensor<i32>
    %j = stablehlo.remainder %b, %ten : tensor<i32>
    %less = stablehlo.compare LT, %i, %j, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %larger = stablehlo.select %less, %b, %a : tensor<i1>, tensor<i32>
    stablehlo.return %larger : tensor<i32>
  }) : (tensor<3xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}

// Groups are in the order given: the second process of a group comes first.
func.func @order(%x: tensor<2x3xi32>) -> (tensor<2x9xi32>, tensor<6x1xi32>, tensor<2x3xi32>, tensor<2xui32>) {
  %0 = "stablehlo.all_gather"(%x) <{
    all_gather_dim = 1 : i64, replica_groups = dense<[[5, 0, 3], [1, 4, 2]]> : tensor<2x3xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids
  }> : (tensor<2x3xi32>) -> tensor<2x9xi32>
  %1 = "stablehlo.all_to_all"(%x) <{
    split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 3 : i64,
    replica_groups = dense<[[2, 0, 1]]> : tensor<1x3xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
  }> : (tensor<2x3xi32>) -> tensor<6x1xi32>
  %2 = "stablehlo.collective_broadcast"(%x) <{
    replica_groups = dense<[[2, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>
  }> : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %replica = stablehlo.replica_id : tensor<ui32>
  %partition = stablehlo.partition_id : tensor<ui32>
  %r = stablehlo.reshape %replica : (tensor<ui32>) -> tensor<1xui32>
  %p = stablehlo.reshape %partition : (tensor<ui32>) -> tensor<1xui32>
  %place = stablehlo.concatenate %r, %p, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>
  return %0, %1, %2, %place : tensor<2x9xi32>, tensor<6x1xi32>, tensor<2x3xi32>, tensor<2xui32>
}

}

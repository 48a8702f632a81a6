shard.grid @g(shape = 2x2x4)
shard.grid @h(shape = ?x4)
mesh.mesh @m(shape = 2x?)
func.func @f(%a: tensor<3x4xf32>, %i: index, %b: tensor<8x8xi8>, %q: memref<12x12xi8>) -> tensor<3x4xf32> {
  %s = shard.sharding @g split_axes = [[0], []] : !shard.sharding
  %c2 = arith.constant 2 : i64
  %s2 = mesh.sharding @g split_axes = [[0]] halo_sizes = [1, %c2] : !mesh.sharding
  %s3 = shard.sharding @g split_axes = [[], [0]] sharded_dims_offsets = [0, 1, %c2] : !shard.sharding
  %x = shard.shard %a to %s annotate_for_users : tensor<3x4xf32>
  %y = shard.get_sharding %x : tensor<3x4xf32> -> !shard.sharding
  %1 = shard.all_reduce %a on @g grid_axes = [1, 0] reduction = <max> : tensor<3x4xf32> -> tensor<3x4xf64>
  %2 = mesh.all_gather %a on @g mesh_axes = [2] gather_axis = 1 : tensor<3x4xf32> -> tensor<3x16xf32>
  %3 = "mesh.all_gather"(%a) {gather_axis = 1 : index, mesh = @g, mesh_axes = array<i16: 2>} : (tensor<3x4xf32>) -> tensor<3x16xf32>
  %4 = shard.scatter %b on @g grid_axes = [0, 2] scatter_axis = 0 root = [1, %i] : (tensor<8x8xi8>, index) -> tensor<1x8xi8>
  %5 = shard.shift %b on @g grid_axes = [0, 2] shift_axis = 2 offset = -2 rotate : tensor<8x8xi8> -> tensor<8x8xi8>
  %sh = shard.shift %b on @g grid_axes = [0, 2] shift_axis = 2 offset = 1 : tensor<8x8xi8> -> tensor<8x8xi8>
  %6 = shard.update_halo %q on @g split_axes = [[0], [1]] halo_sizes = [2, 2, %c2, 2] : memref<12x12xi8>
  %7:2 = shard.shard_shape dims = [8, %i] sharding = %s device = [%i, 1, 2] : index, index
  %8:3 = shard.process_multi_index on @g axes = [] : index, index, index
  %9, %10 = shard.neighbors_linear_indices on @g[%i, %i, %i] split_axes = [1] : index, index
  %11 = shard.recv %b on @g grid_axes = [0] : (tensor<8x8xi8>) -> tensor<8x8xi8>
  %12 = shard.recv %b on @g grid_axes = [0] source = [1] : (tensor<8x8xi8>) -> tensor<8x8xi8>
  %13:2 = shard.grid_shape @g axes = [0, 1] : index, index
  %14 = shard.reduce_scatter %b on @g grid_axes = [2] reduction = max scatter_dim = 1 : tensor<8x8xi8> -> tensor<8x2xi16>
  %15 = shard.process_linear_index on @g : index
  return %x : tensor<3x4xf32>
}

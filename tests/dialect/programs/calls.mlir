// Operations of our own as calls: between arrays of global types, of blocks, of dates; and what else has our attributes.
shard.grid @g(shape = 2x3) {spmd_grid.ranks = [5, 4, 3, 2, 1, 0]}
func.func @blocks(%x: tensor<?x3xf64>, %y: tensor<?x!emitc.opaque<"datetime64[s]">>) -> tensor<?x3xf64> attributes {spmd_grid.grid = @g, spmd_grid.sources = [tensor<7x3xf64, {split_axes = [[0]]}>, tensor<5x!emitc.opaque<"datetime64[s]">, {split_axes = [[1, 0]], blocks = "balanced"}>], spmd_grid.targets = [tensor<7x3xf64, {split_axes = [[1]], halo_sizes = [1, 0]}>]} {
  %0 = call @spmd_grid.exchange(%x) {spmd_grid.grid = @g, spmd_grid.sources = [tensor<7x3xf64, {split_axes = [[0]]}>], spmd_grid.targets = [tensor<7x3xf64, {split_axes = [[1]], halo_sizes = [1, 0]}>]} : (tensor<?x3xf64>) -> tensor<?x3xf64>
  %cst = call @spmd_grid.constant() {spmd_grid.value = "0x0300000000000000"} : () -> !emitc.opaque<"datetime64[s]">
  %1 = call @numpy.maximum(%y, %cst) : (tensor<?x!emitc.opaque<"datetime64[s]">>, !emitc.opaque<"datetime64[s]">) -> tensor<?x!emitc.opaque<"datetime64[s]">>
  %c = call @spmd_grid.constant$1() {spmd_grid.value = 5 : ui8} : () -> ui8
  call @spmd_grid.wait(%0) : (tensor<?x3xf64>) -> ()
  return %0 : tensor<?x3xf64>
}
func.func @global(%x: tensor<4x8xf32, {split_axes = [[], [0]], partial_axes = [1], partial_kind = "max"}>) -> tensor<4x8xf32> attributes {spmd_grid.grid = @g} {
  %0 = call @spmd_grid.all_reduce(%x) {spmd_grid.grid = @g, spmd_grid.grid_axes = [1], spmd_grid.reduction = "max"} : (tensor<4x8xf32, {split_axes = [[], [0]], partial_axes = [1], partial_kind = "max"}>) -> tensor<4x8xf32, {split_axes = [[], [0]]}>
  %1 = call @spmd_grid.all_gather(%0) {spmd_grid.grid = @g, spmd_grid.grid_axes = [0], spmd_grid.gather_axis = 1} : (tensor<4x8xf32, {split_axes = [[], [0]]}>) -> tensor<4x8xf32>
  %2 = call @numpy.roll(%1) {spmd_grid.shift = 1, spmd_grid.axis = [0, 1], spmd_grid.sharding = [[], [0]]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
func.func @annotated(%x: tensor<6xf32>) -> tensor<6xf32> {
  %s = shard.sharding @g split_axes = [[0, 1]] {spmd_grid.block_starts = [0, 1, 2, 3, 4, 5, 6], spmd_grid.open_dims = [0]} : !shard.sharding
  %0 = shard.shard %x to %s {spmd_grid.priority = 2, spmd_grid.required = false, spmd_grid.replicated_axes = []} : tensor<6xf32>
  %1 = call @numpy.roll$1(%0) {spmd_grid.shift = 1} : (tensor<6xf32>) -> tensor<6xf32>
  return %1 : tensor<6xf32>
}
func.func private @spmd_grid.exchange(tensor<?x3xf64>) -> tensor<?x3xf64>
func.func private @spmd_grid.constant() -> !emitc.opaque<"datetime64[s]">
func.func private @spmd_grid.constant$1() -> ui8
func.func private @numpy.maximum(tensor<?x!emitc.opaque<"datetime64[s]">>, !emitc.opaque<"datetime64[s]">) -> tensor<?x!emitc.opaque<"datetime64[s]">>
func.func private @spmd_grid.wait(tensor<?x3xf64>)
func.func private @spmd_grid.all_reduce(tensor<4x8xf32, {split_axes = [[], [0]], partial_axes = [1], partial_kind = "max"}>) -> tensor<4x8xf32, {split_axes = [[], [0]]}>
func.func private @spmd_grid.all_gather(tensor<4x8xf32, {split_axes = [[], [0]]}>) -> tensor<4x8xf32>
func.func private @numpy.roll(tensor<4x8xf32>) -> tensor<4x8xf32>
func.func private @numpy.roll$1(tensor<6xf32>) -> tensor<6xf32>

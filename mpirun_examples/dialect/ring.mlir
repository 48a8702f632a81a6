// Messages around a ring of devices, as send and recv: each passes on what it got, and sums all it has seen.
//
//   python -m spmd_grid run -n 3 ring.mlir --check serial
//
// A send may wait for its receiver, so the first device receives first: were all to send first, all could wait for ever.
// "run -n 3 --seeds 5 ring.mlir" tries orders in which they would.
//
// The grid takes as many devices as there are processes.

shard.grid @ring(shape = ?)

func.func @main(%own: tensor<2xf64>) -> tensor<2xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %i = shard.process_linear_index on @ring : index
  %n = shard.grid_shape @ring : index
  %is_first = arith.cmpi eq, %i, %c0 : index
  %last = arith.subi %n, %c1 : index
  %above = arith.addi %i, %c1 : index
  %next = arith.remui %above, %n : index
  %below = arith.addi %i, %last : index
  %previous = arith.remui %below, %n : index
  %r:2 = scf.for %step = %c0 to %last step %c1 iter_args(%passed = %own, %sum = %own) -> (tensor<2xf64>, tensor<2xf64>) {
    %got = scf.if %is_first -> (tensor<2xf64>) {
      %received = shard.recv %passed on @ring grid_axes = [0] source = [%previous] : (tensor<2xf64>, index) -> tensor<2xf64>
      %sent = shard.send %passed on @ring grid_axes = [0] destination = [%next] : (tensor<2xf64>, index) -> tensor<2xf64>
      scf.yield %received : tensor<2xf64>
    } else {
      %sent = shard.send %passed on @ring grid_axes = [0] destination = [%next] : (tensor<2xf64>, index) -> tensor<2xf64>
      %received = shard.recv %passed on @ring grid_axes = [0] source = [%previous] : (tensor<2xf64>, index) -> tensor<2xf64>
      scf.yield %received : tensor<2xf64>
    }
    %more = arith.addf %sum, %got : tensor<2xf64>
    scf.yield %got, %more : tensor<2xf64>, tensor<2xf64>
  }
  return %r#1 : tensor<2xf64>
}

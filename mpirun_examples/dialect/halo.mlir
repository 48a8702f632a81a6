// Halos on 3 devices: 6 cells in blocks of 2, with one cell of each neighbour around them.
//
//   python -m spmd_grid run halo.mlir --main tensors --check serial
//   python -m spmd_grid run halo.mlir --main buffers --check serial
//   python -m spmd_grid run halo.mlir --main diffusion --check serial
//
// Cells outside of the array stay as they were.

shard.grid @grid0(shape = 3)

func.func @tensors() -> tensor<4xi32> {
  %all = arith.constant dense<[0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0]> : tensor<12xi32>
  %c4 = arith.constant 4 : index
  %i = shard.process_linear_index on @grid0 : index
  %start = arith.muli %i, %c4 : index
  %x = tensor.extract_slice %all[%start] [4] [1] : tensor<12xi32> to tensor<4xi32>
  %y = shard.update_halo %x on @grid0 split_axes = [[0]] halo_sizes = [1, 1] : tensor<4xi32>
  return %y : tensor<4xi32>
}

// The forms on buffers work in place.
func.func @buffers() -> (memref<4xf64>, memref<4xf64>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %i = shard.process_linear_index on @grid0 : index
  %n = arith.index_cast %i : index to i64
  %f = arith.sitofp %n : i64 to f64
  %ten = arith.constant 10.0 : f64
  %value = arith.mulf %f, %ten : f64
  %u = memref.alloc() : memref<4xf64>
  memref.store %value, %u[%c1] : memref<4xf64>
  %next = arith.addf %value, %ten : f64
  memref.store %next, %u[%c2] : memref<4xf64>
  %v = shard.update_halo %u on @grid0 split_axes = [[0]] halo_sizes = [1, 1] : memref<4xf64>
  %sum = shard.all_reduce %u on @grid0 grid_axes = [0] : memref<4xf64> -> memref<4xf64>
  return %u, %sum : memref<4xf64>, memref<4xf64>
}

// Ten steps of a stencil: the halos are updated before each.
func.func @diffusion(%u: tensor<10xf64>) -> tensor<10xf64> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  %half = arith.constant dense<0.5> : tensor<8xf64>
  %r = scf.for %step = %c0 to %c10 step %c1 iter_args(%x = %u) -> (tensor<10xf64>) {
    %y = shard.update_halo %x on @grid0 split_axes = [[0]] halo_sizes = [1, 1] : tensor<10xf64>
    %low = tensor.extract_slice %y[0] [8] [1] : tensor<10xf64> to tensor<8xf64>
    %high = tensor.extract_slice %y[2] [8] [1] : tensor<10xf64> to tensor<8xf64>
    %sum = arith.addf %low, %high : tensor<8xf64>
    %mean = arith.mulf %sum, %half : tensor<8xf64>
    %z = tensor.insert_slice %mean into %y[1] [8] [1] : tensor<8xf64> into tensor<10xf64>
    scf.yield %z : tensor<10xf64>
  }
  return %r : tensor<10xf64>
}

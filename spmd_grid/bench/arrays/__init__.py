"""bench arrays: numpy on sharded arrays, against numpy on the blocks, code by hand, and other libraries."""

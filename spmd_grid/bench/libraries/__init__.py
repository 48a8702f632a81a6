"""Other libraries that take part in benchmarks: their interface, processes of their own, and rows beside them."""

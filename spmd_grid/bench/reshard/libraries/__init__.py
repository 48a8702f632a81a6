"""Other libraries that reshard, adapted to the benchmark."""

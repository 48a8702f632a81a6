"""bench kernels: the compiled kernels against numpy."""

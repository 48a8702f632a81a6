"""A weak memory, and programs that are recorded from the kernels' source, which tests of protocols share."""

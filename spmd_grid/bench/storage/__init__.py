"""The storage benchmark: saving and loading against one process with plain system calls, and other libraries."""

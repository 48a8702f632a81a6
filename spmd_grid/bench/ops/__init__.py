"""bench ops: collective operations against the same by hand."""

"""bench watch: what recording and checking add to an operation."""

"""Movement of boxes between the members of an operation."""

"""bench start: importing the package and first operations, in fresh processes."""

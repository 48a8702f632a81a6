"""Files that other programs read and write."""

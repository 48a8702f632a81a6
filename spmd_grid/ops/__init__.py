"""The operations of the dialect, one file each; their rules of shape are in `calls.shape_rules`."""

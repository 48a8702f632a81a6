"""The operations of the dialect, one file each; `signatures` holds their rules of shape, without data."""

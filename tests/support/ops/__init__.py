"""What tests of operations share: their oracle, and calls that are refused."""

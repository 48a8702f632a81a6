"""Parts that all benchmarks share: timing, rows, tables and reports."""

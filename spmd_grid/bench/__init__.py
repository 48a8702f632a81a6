"""Benchmarks against what one writes by hand, interleaved in one run."""

"""Layouts, and random expressions, of tests of array functions."""

"""Simulated ranks: threads of one process, scheduled so that every run with one seed is the same."""

"""Traces: written while a program runs, read and summarised afterwards."""

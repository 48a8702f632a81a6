"""Drawings: who holds what, and what moves, as text and as SVG."""

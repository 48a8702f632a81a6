"""Geometry of reshardings: who sends which box to whom."""

"""Geometry of halos: which halo cells come from whom."""

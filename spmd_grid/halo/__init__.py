"""Halos: copies of neighbours' cells around a device's own."""

"""Drawings as text."""

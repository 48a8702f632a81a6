"""Texts of the dialect that tests share."""

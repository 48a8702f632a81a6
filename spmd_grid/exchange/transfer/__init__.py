"""Transfers: the boxes that move once between the members of a group, over any path."""

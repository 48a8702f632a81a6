"""The links between processes as a model: written by hand, measured, kept in files; and the order that suits them."""

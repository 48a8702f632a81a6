"""Channels: fixed exchanges of boxes between neighbours, made once and run many times."""

"""Channels: exchanges of fixed boxes between neighbours, made once and run many times."""

"""Strategies and oracles of property tests."""

"""Oracles, layouts and wrong plans that tests of resharding share."""

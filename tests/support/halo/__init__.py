"""Oracles, cases and small plans that tests of halos share."""

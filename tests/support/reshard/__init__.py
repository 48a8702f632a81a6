"""What tests of resharding share: oracles, layouts and wrong plans."""

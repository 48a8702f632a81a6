"""What tests of halos share: oracles, cases and small plans."""

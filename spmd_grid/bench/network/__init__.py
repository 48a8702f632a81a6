"""bench network: operations, reshardings and halos between nodes against MPI's own, and the bytes that cross."""

"""bench halo: HaloExchange against hand-written halo exchanges."""

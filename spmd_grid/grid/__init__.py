"""Pure geometry: boxes, the block rule, grids, groups, shardings and layouts; no process, no communication."""

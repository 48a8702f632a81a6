"""Random programs: drawn, played on all ranks, and compared with an oracle that holds the arrays of all of them."""

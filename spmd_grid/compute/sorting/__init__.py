"""Sorts of arrays that are cut along their one dimension, and functions made of them.

splitting    where sorted runs are cut, so that each process gets the cells of its own block
pieces       the exchange of pieces of any lengths
sorted_cells one array's cells in order, and the ways there and back
sorts        sort, argsort, and cells by their position in the order
sets         unique cells, and functions of sets
searches     np.searchsorted in arrays that are cut
"""

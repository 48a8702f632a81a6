"""Halos: copies of neighbours' cells around a device's own.

Corners: `update_halo` goes dimension by dimension, so neighbours along one have filled their halos along those before,
and pass corners on.  For `HaloExchange` corners are boxes like all others: `geometry/pattern.py` says whose they are,
`plan/channels.py` makes a channel of that, and ``kernels/protocol/course.py`` copies.

geometry       the owner of each halo cell, and boundary values; pure
update_halo    update_halo, for any array at any time
line_exchange  its exchange along one dimension
exchange       HaloExchange, as programs use it
plan           what a HaloExchange makes and runs
updates        its updates, by Python or as one compiled function
loop_entry     its entry for compiled loops
jit            HaloExchange as an argument of functions that numba compiles
overlap        map_overlap, which computes while halos travel
overlap_boxes  the cells that need no halo, and the others
kept_updates   plans that the grid keeps for arrays that are updated again and again
border_copy    copies of cells, to find writes that the program has not marked
"""

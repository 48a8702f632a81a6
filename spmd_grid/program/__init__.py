"""Programs: a function over numpy's calls that is traced, spread over a grid by annotations, and run on all devices.

ir           values, operations and annotations of a traced program
trace        a function becomes a program, by the protocols by which arrays compute
manual       local code inside a program
propagate    annotations reach the values that have none
partition    a program on a grid: local computations, and the moves between shardings
lowerings    operations as computations on blocks and moves
passes       schedules that communicate less
search       mutations, and the search for a cheaper partition
explain      the reasons of shardings and communications
text         the text of each stage
cut_lists    lists of grid axes, as mutations give them

Nothing below imports this package.
"""

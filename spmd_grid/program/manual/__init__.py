"""Manual computations: local code along some grid axes, with the engine's own collectives, inside a program.

public         manual: what users call, in traced functions, on sharded arrays, and inside one another
terms          the shardings and the manual axes of one manual computation, checked
abstract       the body on blocks without cells: its operations, shapes of its results, and its communications
communication  the engine's operations on blocks without cells, and as steps of a program
lifting        the body's operations as operations of the program, which free axes may cut
crossing       the ways into a body and out of it
lowering       a body that is called as it is, as one step of a program
at_once        a body on the blocks of another one that is running, and on sharded arrays
"""

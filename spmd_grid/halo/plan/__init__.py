"""Halo plans, which a `HaloExchange` makes and runs.

specification   the arguments, checked, and compared between processes
halo_plan       the plan and its operations
channels        its pattern, bound to processes
trial           the ways between neighbours, tried when the plan is made
field_checks    checks of the arrays that are updated
kept_calls      what is known of arrays that have been updated before
under_way       an update between start and wait
accumulate      the reverse of an update: halo cells are added to their owners' cells
shared_refusal  one error for all processes that refusals connect
follow_ups      boundary functions, and notes that halos are fresh
watched         plans whose calls are recorded and compared
describe        the text of `HaloExchange.describe`
"""

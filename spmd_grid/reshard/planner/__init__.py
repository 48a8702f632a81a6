"""Planner: the steps of reshardings, their cost, and the choice of the cheapest plan.

steps          a step of a plan
waypoint       a layout on the way to the target, and the steps that lead from it
moves          the steps that make sense
direct         strategy "direct"
basis          strategy "basis"
shortest_path  the cheapest chain that a search finds
cost           the seconds, bytes and memory of a step
run_cost       the seconds of a run: its steps, and the meeting before them
node_work      the seconds of an exchange within a node
node_traffic   the bytes that cross between nodes
chunking       the chunks of a step where memory is short
choose         the choice among all of these
"""

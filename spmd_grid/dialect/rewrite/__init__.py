"""Programs of the dialect made smaller, with the same meaning.

simplify     collectives of groups of one device, of what was gathered, and of reductions that are cut again
"""

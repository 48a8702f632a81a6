"""Rules that programs of the dialect follow, beyond the form of their text.

module       all rules on every operation
"""

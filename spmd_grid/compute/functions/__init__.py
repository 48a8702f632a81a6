"""Functions that need processes, beyond the application of a rule.

joining      concatenation, reshape and their relatives
scans        running sums, products and others
padding      pad and repeat
finding      cells that are found: nonzero, and compress by masks
counting     histograms, counts, and searches in lists
inserting    np.insert and np.delete
writing      functions that write into an array that they are given
"""

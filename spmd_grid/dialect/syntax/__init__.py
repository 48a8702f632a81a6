"""Operations of the dialect, and their text.

directives   parts of pretty forms: reductions, lists of numbers and values
collectives  the 13 operations that move data
shardings    operations on grids and shardings
shard        the shard dialect as a whole
stablehlo    the part of stablehlo that dense networks use; mhlo is read as it
tosa         the part of tosa that computes on whole tensors
context      all dialects that are read, and older names
positions    places in a text, and errors that say them
scan         strings, numbers and brackets of a text before it is parsed
reader       from text to a module
printer      from a module to text
"""

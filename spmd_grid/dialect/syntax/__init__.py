"""Operations of the dialect, and their text.

directives   parts of pretty forms: reductions, lists of numbers and values
shard        the shard dialect
stablehlo    the part of stablehlo that dense networks use; mhlo is read as it
tosa         the part of tosa that computes on whole tensors
arith        arith and memref, with what the parser refuses
linalg       linalg, with the named operations that the parser leaves out
encodings    shardings in types
older        operations of the first years of the dialect
renewed      their operations of today
context      all dialects that are read, and older names
positions    positions in a text, and errors that name them
scan         strings, numbers and brackets of a text before it is parsed
reader       from text to a module
printer      from a module to text
"""

"""Explanations of two values, and the text of the program."""

from step_1_trace import part

print(part.explain("h"))
print()
print(part.explain("y"))
print()
print(part.text("optimised"))

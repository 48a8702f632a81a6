"""The reason for the sharding of each value, and every communication."""

from step_1_trace import part

print(part.explain("h"))
print()
print(part.explain("y"))
print()
print(part.text("optimised"))

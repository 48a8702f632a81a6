"""Why each value is sharded as it is, and every communication."""

from step_1_trace import part

print(part.explain("h"))
print()
print(part.explain("y"))
print()
print(part.text("optimised"))

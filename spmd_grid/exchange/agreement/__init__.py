"""Agreement between the members of a group: each describes its call, and all learn it before any data moves."""

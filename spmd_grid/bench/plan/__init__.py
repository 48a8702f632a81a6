"""bench plan: the time that one process takes to plan."""

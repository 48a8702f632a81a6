"""bench reshard: run_plan against hand-written reshardings and other libraries."""

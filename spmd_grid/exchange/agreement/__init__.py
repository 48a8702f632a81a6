"""Agreement between the members of a group: what each brings, learnt by all before anything moves."""

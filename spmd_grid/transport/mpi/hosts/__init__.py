"""The hosts of a job: their names and software, and traces on all of them."""

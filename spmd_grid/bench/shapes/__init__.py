"""bench shapes: operations on arrays from 1 : 10^6 to 10^6 : 1, where none may take longer than its cells do."""

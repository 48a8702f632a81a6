"""Agreement between the processes of a group, and the ways in which boxes of arrays move between them."""

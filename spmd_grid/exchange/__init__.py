"""Agreement between the processes of a group, and the one executor that moves boxes of arrays between them."""

"""Programs and the printed table of drills."""

"""Ends of processes under MPI: exits, deaths, signals, forks and hangs, reported to the processes that wait."""

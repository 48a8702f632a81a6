"""Ends of processes under MPI: exits, deaths, signals, forks and hangs, told to those who wait."""

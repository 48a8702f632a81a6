"""The program that simulated ranks execute for a module; its arguments are the file and the options after it."""

import sys

from spmd_grid.dialect.running.command import run_here

if __name__ == "__main__":
    run_here(sys.argv[1], sys.argv[2:])

"""Runs of a module's function by the processes of a program: inputs, results, and the comparison with a serial run.

inputs     arguments from files, numbers and generators
job        one run on every process
checking   the serial meaning, and the comparison with it
showing    values in words, and results in files
telling    results as bytes for other processes
command    the command line of a run
driver     the program that simulated ranks execute
"""

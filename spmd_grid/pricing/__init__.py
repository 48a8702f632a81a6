"""The price of a program of steps on any machine, by a model of its links; no process is needed."""

"""Tests of SPMD code: one body on simulated ranks and under ``mpiexec``."""

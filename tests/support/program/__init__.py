"""Support of the tests of programs."""

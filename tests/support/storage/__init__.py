"""Support of the tests of storage."""

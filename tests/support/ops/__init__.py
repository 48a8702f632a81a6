"""An oracle of operations, refused calls, and checks that tests of operations share."""

"""Parts that several folders of tests share: programs to start, time limits, drills, interrupts, random programs,
and oracles of halos, operations and reshardings.

``support`` can be imported because pytest puts the folder of ``tests/conftest.py`` on the path; programs that tests
start find it through ``jobs.clean_environment``.
"""

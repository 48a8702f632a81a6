"""What several folders of tests share: programs to start, limits of time, drills, interrupts, random programs.

``support`` can be imported because pytest puts the folder of ``tests/conftest.py`` on the path; programs that tests
start find it through ``jobs.clean_environment``.
"""

"""A folder per test that lasts until all processes are done with it."""

from support.own_folder import tmp_path

__all__ = ["tmp_path"]

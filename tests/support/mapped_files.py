"""Files in /dev/shm that processes of a job have mapped."""

import os

KEEP_MAPS = "from pathlib import Path; Path(f'maps{grid.rank}').write_text(Path('/proc/self/maps').read_text())"


def shared_files(folder):
    """The files in memory that the ranks of a job had mapped and whose names are still there."""
    maps = [line.split(maxsplit=5) for file in folder.glob("maps*") for line in file.read_text().splitlines()]
    names = {line[5].removesuffix(" (deleted)") for line in maps if len(line) == 6}
    assert any("mpich" in name or "ompi" in name for name in names)  # the libraries, at least
    return {name for name in names if name.startswith("/dev/shm") and os.path.exists(name)}

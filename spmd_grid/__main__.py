"""``python -m spmd_grid``: the command line."""

import sys

from spmd_grid.cli.main import main

sys.exit(main())

import sys

from spmd_grid.cli.main import main

sys.exit(main())

"""A namespace of the Python array API standard, version 2024.12, over sharded arrays.

Its functions are numpy's on sharded arrays, by the same table of sharding rules, under the standard's names and with
the standard's arguments.  Results without dimensions are sharded arrays too, whereas numpy's functions and selections
of one cell give numbers; both are taken as arguments.  Constructors take ``sharding=`` and ``grid=``, and by default
those of `spmd_grid.use_sharding_defaults`.  All functions are collective over the grid unless they say Local.

>>> import spmd_grid as sg
>>> def body():
...     xp = sg.array_api
...     with sg.use_sharding_defaults(sg.init_grid((3,))):
...         a = xp.linspace(0.0, 3.0, 7)
...         return a.local.tolist(), float(xp.sum(xp.square(a)))
>>> sg.run_spmd(body, ranks=3)
[([0.0, 0.5, 1.0], 22.75), ([1.5, 2.0, 2.5], 22.75), ([3.0], 22.75)]
"""

from numpy import pad  # noqa: F401 - not in the standard: xarray looks for it in every namespace

from spmd_grid.array_api import (
    creation,
    data_types,
    dtypes,
    elementwise,
    fft,
    inspection,
    linalg,
    linear_algebra,
    manipulation,
    searching,
    statistical,
)

# ruff: noqa: F403 - each chapter of the standard says in its __all__ what it offers
from spmd_grid.array_api.creation import *
from spmd_grid.array_api.data_types import *
from spmd_grid.array_api.dtypes import *
from spmd_grid.array_api.elementwise import *
from spmd_grid.array_api.inspection import *
from spmd_grid.array_api.linear_algebra import *
from spmd_grid.array_api.manipulation import *
from spmd_grid.array_api.searching import *
from spmd_grid.array_api.statistical import *

__array_api_version__ = "2024.12"

__all__ = [
    "__array_api_version__",
    "fft",
    "linalg",
    *creation.__all__,
    *data_types.__all__,
    *dtypes.__all__,
    *elementwise.__all__,
    *inspection.__all__,
    *linear_algebra.__all__,
    *manipulation.__all__,
    *searching.__all__,
    *statistical.__all__,
]

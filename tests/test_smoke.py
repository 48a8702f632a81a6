import numpy as np

import spmd_grid as sg


def test_x(spmd):
    def body():
        g = sg.init_grid((2,))
        return sg.all_gather(np.arange(g.rank + 1), g, [0], 0).tolist()

    assert spmd(2, body) == [[0, 0, 1]] * 2

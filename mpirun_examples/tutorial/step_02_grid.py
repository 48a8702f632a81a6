"""Step 2: several processes run the same program; a grid gives each of them coordinates.

python -m spmd_grid run -n 4 mpirun_examples/tutorial/step_02_grid.py
mpiexec -n 4 python mpirun_examples/tutorial/step_02_grid.py
"""

import spmd_grid as sg


def main():
    grid = sg.init_grid((2, -1), axis_names=("x", "y"))  # 2 x 2 on 4 processes, 2 x 3 on 6
    print(f"process {grid.rank} of {grid.size} is device {grid.coords} of a {grid.shape} grid")


if __name__ == "__main__":
    main()

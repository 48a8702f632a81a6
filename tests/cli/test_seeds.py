"""``run --seeds``: programs whose results or progress depend on who comes first are found, others are not suspected."""

from pathlib import Path

import pytest
from support.jobs import run_job

import spmd_grid as sg
from spmd_grid.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "mpirun_examples"
HEAD = "import sys\nimport numpy as np\nimport spmd_grid as sg\ngrid = sg.init_grid((-1,))\n"


@pytest.fixture
def seeds(tmp_path, capfd):
    """``seeds(text, *args, n=, k=)``: exit code and output of the program ``text`` under k seeds."""

    def run(text, *args, n=3, k=12, name="app.py"):
        (tmp_path / name).write_text(text)
        code = main(["run", "-n", str(n), "--seeds", str(k), str(tmp_path / name), *args])
        said = capfd.readouterr()
        assert said.err == ""
        return code, said.out

    return run


def test_a_program_that_is_sound(seeds):
    code, out = seeds(
        HEAD + "for i in range(3):\n    print(i, sg.all_reduce(grid.rank, grid, [0], 'sum'))\n"
        "asked = sg.recv.start(grid, [0], [(grid.rank - 1) % grid.size])\n"
        "sg.send(np.arange(500), grid, [0], [(grid.rank + 1) % grid.size])\n"
        "while not asked.done:\n    pass\n"
        "print(asked.wait().sum())\n"
    )
    assert (code, out) == (0, "app.py on 3 ranks under 12 seeds, one rank at a time: all runs print the same\n")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("race_any_source", ["first with different output:", "[0 (0,)] smoothed", "0 fail", "-n 4 --seed "]),
        ("race_send_first", ["that fails:", "DeadlockError", "rank 0 waits in send(grid_axes=[0], destination=[1])"]),
    ],
)
def test_the_examples(program, words, capfd):
    path = EXAMPLES / "debug" / f"{program}.py"
    assert main(["run", "-n", "4", "--seeds", "20", str(path)]) == 1
    out = capfd.readouterr().out
    assert all(word in out for word in words), out
    (again,) = [line for line in out.splitlines() if line.startswith("  again: ")]
    # The command that it names shows what it says, each time.
    arguments = again.partition("spmd_grid ")[2].split()
    shown = []
    for _ in range(2):
        code = main(arguments)
        said = capfd.readouterr()
        shown.append((code, said.out, said.err))
    assert shown[0] == shown[1]
    if program == "race_any_source":
        (line,) = [line for line in out.splitlines() if line.startswith("  + [0")]
        assert shown[0] == (0, line.removeprefix("  + ") + "\n", "")
    else:
        assert shown[0][0] == 1 and "DeadlockError" in shown[0][2]


def test_a_failure_under_some_seeds(seeds):
    code, out = seeds(
        HEAD + "if grid.rank:\n    sg.send([grid.rank], grid, [0], [0])\n"
        "elif [sg.recv(grid, [0])[0] for _ in range(2)][0] == 2:\n    raise ValueError('two was first')\n"
    )
    assert code == 1 and "ValueError: two was first" in out and "in run_program" not in out
    assert 'app.py", line 8, in <module>' in out and "raised on simulated rank 0 (0,) of 3" in out


def test_a_failure_under_all_seeds(seeds):
    code, out = seeds(HEAD + "sys.exit(3)\n", k=3)
    assert code == 1 and "3 end as seed 0 does, 0 do not; 3 fail" in out and "sys.exit(3)" in out


def test_looking_for_ever(seeds):
    text = HEAD + "if grid.rank == 0:\n    asked = sg.recv.start(grid, [0])\n    while not asked.done:\n        pass\n"
    code, out = seeds(text + "else:\n    sg.all_reduce(1, grid, [0], 'sum')\n", k=2)
    assert code == 1 and "they ask again and again whether requests are done" in out
    assert "rank 0 looks whether requests are done" in out and "rank 1 waits in all_reduce" in out


def test_a_program_that_never_prints_the_same(seeds):
    code, out = seeds(HEAD + "import time\nprint(time.perf_counter())\n", k=3)
    assert code == 1 and "two runs under seed 0 differ, too" in out


def test_runs_do_not_see_one_another(seeds, tmp_path):
    """Modules beside the program are imported anew; random numbers, the folder and the environment are as before."""
    (tmp_path / "beside_the_app.py").write_text("count = []\n")
    code, out = seeds(
        HEAD + "import os, random, beside_the_app\n"
        "beside_the_app.count.append(1)\n"
        "sg.all_reduce(1, grid, [0], 'sum')\n"
        "print(len(beside_the_app.count), np.random.random(), random.random(), os.environ.get('SEEN'))\n"
        "print(os.path.basename(os.getcwd()) == 'elsewhere')\n"
        "sg.all_reduce(1, grid, [0], 'sum')\n"
        "os.environ['SEEN'] = '1'\n"
        "os.makedirs(sys.argv[1], exist_ok=True)\n"
        "os.chdir(sys.argv[1])\n"
        "breakpoint()\n",
        str(tmp_path / "elsewhere"),
    )
    assert code == 0, out


def test_random_numbers_are_each_ranks_own(tmp_path, capfd):
    program = tmp_path / "app.py"
    program.write_text(
        HEAD + "np.random.seed(7)\nsg.all_reduce(1, grid, [0], 'sum')\nprint(np.random.random(3).tolist())\n"
    )
    for seed in range(3):
        assert main(["run", "-n", "3", "--seed", str(seed), str(program)]) == 0
    assert len(set(capfd.readouterr().out.splitlines())) == 1


def test_words_that_do_not_go_together(tmp_path, capfd):
    (tmp_path / "app.py").write_text("")
    for words in (["--seed", "1", "--seeds", "2"], ["--seeds", "0"]):
        with pytest.raises(SystemExit) as caught:
            main(["run", "-n", "2", *words, str(tmp_path / "app.py")])
        assert caught.value.code == 2
    assert main(["run", "-n", "2", "--seeds", "2", "--trace", "x", str(tmp_path / "app.py")]) == 2
    assert "--seeds excludes --trace and --label" in capfd.readouterr().err


# -- what a seed chooses ---------------------------------------------------------------------------------------------


def arrivals(n):
    """The senders of what rank 0 gets, all of it sent before it asks for any."""
    grid = sg.init_grid((n,))
    if grid.rank:
        sg.send([grid.rank], grid, [0], [0])
    sg.all_reduce(1, grid, [0], "sum")
    return [int(sg.recv(grid, [0])[0]) for _ in range(n - 1)] if grid.rank == 0 else None


def test_a_receive_from_anybody_takes_any_message():
    """Also where the messages came in one order: between senders, MPI promises none."""
    seen = [tuple(sg.run_spmd(arrivals, 4, ranks=4, seed=seed)[0]) for seed in range(60)]
    assert len(set(seen)) == 6
    assert seen == [tuple(sg.run_spmd(arrivals, 4, ranks=4, seed=seed)[0]) for seed in range(60)]


def test_messages_of_one_sender_keep_their_order():
    def body():
        grid = sg.init_grid((3,))
        if grid.rank:
            for i in range(5):
                sg.send([grid.rank, i], grid, [0], [0])
            return None
        got = [sg.recv(grid, [0]).tolist() for _ in range(10)]
        return [[i for rank, i in got if rank == sender] for sender in (1, 2)]

    for seed in range(10):
        assert sg.run_spmd(body, ranks=3, seed=seed)[0] == [list(range(5))] * 2


def test_started_operations_and_polling_go_on_in_any_order():
    def body():
        grid = sg.init_grid((3,))
        asked = [sg.recv.start(grid, [0], [other]) for other in range(3) if other != grid.rank]
        for other in range(3):
            if other != grid.rank:
                sg.send([grid.rank], grid, [0], [other])
        order = []
        while len(order) < 2:
            order += [i for i, request in enumerate(asked) if i not in order and request.done]
        return order, [int(request.wait()[0]) for request in asked]

    results = [sg.run_spmd(body, ranks=3, seed=seed) for seed in range(30)]
    assert {tuple(order) for result in results for order, _ in result} == {(0, 1), (1, 0)}
    assert {tuple(map(tuple, (got for _, got in result))) for result in results} == {((1, 2), (0, 2), (0, 1))}
    assert results == [sg.run_spmd(body, ranks=3, seed=seed) for seed in range(30)]


def test_the_examples_under_mpi():
    assert run_job("mpiexec", 2, EXAMPLES / "debug" / "race_any_source.py").out == "smoothed 0.5\n"

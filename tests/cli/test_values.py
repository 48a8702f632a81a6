"""Every value that can be typed and cannot be meant: one clear line on stderr, exit code 2, at once."""

import resource
import time

import pytest

import spmd_grid as sg
from spmd_grid import numerals
from spmd_grid.cli.main import main
from spmd_grid.exchange import paths
from spmd_grid.transport import asked_path
from spmd_grid.transport.segment_sizes import ranks_per_node, segment_size
from spmd_grid.transport.simulated.limits import most_ranks
from spmd_grid.watch.settings import Settings

SHOW = ["show", "--grid", "2x3", "--shape", "6x6", "--sharding", "[[0],[1]]"]
TO = [*SHOW, "--to", "[[1],[0]]"]
PLAN = ["plan", "--grid", "2x3", "--shape", "6x6", "--from", "[[0],[1]]", "--to", "[[1],[0]]"]

NO_NUMBERS = ["", " ", "nan", "inf", "-inf", "1e99", "1.5", "٣", "²", "1_0", "9" * 5000, "x", "--"]
NEGATIVE, ZERO, HUGE = "-1", "0", "9" * 20

# The words before the value, and what is refused besides what is no whole number.
WHOLE = {
    "run -n": (["run", "no such program", "--ranks="], [NEGATIVE, ZERO, HUGE]),
    "run --seed": (["run", "-n1", "no such program", "--seed="], []),
    "run --seeds": (["run", "-n1", "no such program", "--seeds="], [NEGATIVE, ZERO, HUGE]),
    "plan --node-size": ([*PLAN, "--node-size="], [NEGATIVE, ZERO]),
    "plan --process": ([*PLAN, "--process="], [NEGATIVE, HUGE]),
    "plan --limit": ([*PLAN, "--process=0", "--limit="], [NEGATIVE]),
    "plan --device": ([*PLAN, "--device="], [NEGATIVE, ZERO, HUGE]),
    "show --limit": ([*TO, "--limit="], [NEGATIVE]),
    "show --across": ([*SHOW, "--values", "--across="], [NEGATIVE, HUGE]),
    "show --grid": ([*SHOW, "--grid="], [NEGATIVE, ZERO, HUGE]),
    "show --shape": ([*SHOW, "--shape="], [NEGATIVE, ZERO, HUGE]),
    "show --ranks": ([*SHOW, "--ranks="], [NEGATIVE, ZERO, HUGE, f"0-{HUGE}"]),
    "show --halo": ([*SHOW, "--halo="], [NEGATIVE, ZERO, HUGE, "٣,1,1,1"]),
    "show --offsets": ([*SHOW, "--offsets="], [NEGATIVE, ZERO, HUGE]),
    "show --partial": ([*SHOW, "--partial="], [NEGATIVE, ZERO, HUGE]),
    "show --sharding": ([*SHOW, "--sharding="], [NEGATIVE, ZERO, HUGE]),
    "show --to-grid": ([*TO, "--to-grid="], [NEGATIVE, ZERO, HUGE]),
    "show --to-ranks": ([*TO, "--to-ranks="], [NEGATIVE, ZERO, HUGE]),
    "show --to-halo": ([*TO, "--to-halo="], [NEGATIVE, ZERO, HUGE]),
    "bench ops -n": (["bench", "ops", "--rows=no such row", "--ranks="], [NEGATIVE, ZERO, HUGE]),
    "bench plan --rounds": (["bench", "plan", "--rows=no such row", "--rounds="], [NEGATIVE, ZERO, HUGE]),
    "doctor -n": (["doctor", "--ranks="], [NEGATIVE, ZERO, "1", HUGE]),
}
# Of these, what would be a number, a name or a path.
OTHERS = {
    "doctor --limit": (["doctor", "--limit="], [value for value in NO_NUMBERS if value != "1.5"] + [NEGATIVE, ZERO]),
    "plan --memory-limit": ([*PLAN, "--memory-limit="], ["", "nan", "inf", NEGATIVE, "٣", "1_0", "x", "--", "1GiGiB"]),
    "plan --strategy": ([*PLAN, "--strategy="], ["", "x", "9" * 5000]),
    "show --dtype": ([*SHOW, "--dtype="], ["", "x", "٣", "9" * 5000]),
    "show --blocks": ([*SHOW, "--blocks="], ["", "x", "--", "9" * 5000]),
    "show --axis-names": ([*SHOW, "--axis-names="], ["", "x", "x,x", "9" * 5000]),
    "show --partial-kind": ([*SHOW, "--partial=", "--partial-kind="], ["", "x"]),
    "show --svg": ([*SHOW, "--svg="], ["", "/no such folder/x.svg", "9" * 5000]),
    "show --to-grid alone": ([*SHOW, "--to-grid="], ["2x3"]),
    "trace": (["trace", ""], ["", " ", "/no such folder", "9" * 5000]),
    "run program": (["run", "-n1", ""], ["", "no such program", "9" * 5000]),
    "bench ops --json": (["bench", "ops", "--json="], ["", "/no such folder/x", "9" * 5000]),
    "bench ops --from": (["bench", "ops", "--from="], ["", "/no such folder/x", "9" * 5000]),
    "bench ops --plot": (["bench", "ops", "--quick", "--plot="], ["", "x", "9" * 5000]),
    "bench reshard --peers": (["bench", "reshard", "--peers="], ["", "x", "9" * 5000]),
}
CASES = {
    **{name: (words, NO_NUMBERS + more) for name, (words, more) in WHOLE.items() if name != "show --across"},
    "show --across": (WHOLE["show --across"][0], NO_NUMBERS + WHOLE["show --across"][1]),
    **OTHERS,
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name, capsys):
    words, values = CASES[name]
    for value in values:
        began, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            code = main([*words[:-1], words[-1] + value])
        except SystemExit as left:  # argparse's way to refuse, below the usage
            code = left.code
        out, err = capsys.readouterr()
        line = err.splitlines()[-1] if err else ""
        assert code == 2 and out == "", (value[:20], code, out[:200], line[:200])
        assert line.startswith("spmd_grid") and 20 < len(line) < 700 and "Traceback" not in err, (value[:20], err)
        assert time.process_time() - began < 1, value[:20]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000, value[:20]  # KiB


ENVIRONMENT = {
    "SPMD_GRID_CHECK": (Settings.from_environment, ["2", "-1", "yes", "٣", "nan", "9" * 5000]),
    "SPMD_GRID_TIMEOUT": (
        Settings.from_environment, ["0", "-1", "nan", "inf", "1e99", "٣", "1_0", "x", "9" * 5000, "1 0"],
    ),
    "SPMD_GRID_ARENA": (lambda: segment_size(1), ["-1", "nan", "1.5", "1e9", "٣", "²", "1_0", "x", "9" * 5000]),
    "SPMD_GRID_RANKS_PER_NODE": (ranks_per_node, ["0", "-1", "nan", "1.5", "٣", "1_0", "x", "9" * 5000]),
}  # fmt: skip


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_environment(name, monkeypatch):
    read, values = ENVIRONMENT[name]
    for value in values:
        monkeypatch.setenv(name, value)
        with pytest.raises(sg.TransportError, match=f"{name}=.*; it must be") as caught:
            read()
        assert len(str(caught.value)) < 300 or name == "SPMD_GRID_CHECK"
    for unset in ("", " "):
        monkeypatch.setenv(name, unset)
        read()


def test_path_of_the_environment(monkeypatch):
    monkeypatch.setattr(asked_path, "_path", None)
    monkeypatch.setenv("SPMD_GRID_PATH", " ")
    assert paths.chosen_path() == "auto"
    monkeypatch.setattr(asked_path, "_path", None)
    monkeypatch.setenv("SPMD_GRID_PATH", "sideways")
    with pytest.raises(sg.TransportError, match="SPMD_GRID_PATH is 'sideways'; it must be one of auto"):
        paths.chosen_path()


def test_more_simulated_ranks_than_threads():
    """Refused before anything is made, with the limit."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for ranks in (most_ranks() + 1, 10**20, 10**5000):
        with pytest.raises(sg.SimulationError, match=f"the system allows {most_ranks()} of them at most"):
            sg.run_spmd(lambda: None, ranks=ranks)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 10_000
    for ranks in (0, -1, 1.5, True, "2", float("nan")):
        with pytest.raises(sg.GridError, match="it must be a whole number of simulated ranks, at least 1"):
            sg.run_spmd(lambda: None, ranks=ranks)


@pytest.mark.parametrize(("text", "number"), [("0", 0), (" 7 ", 7), ("-3", -3), ("9" * 30, 10**30 - 1)])
def test_whole_numbers(text, number):
    assert numerals.whole_number(text) == number


@pytest.mark.parametrize("text", ["", "-", "--1", "+1", "1.0", "9" * 31, "0x10", "\u0661"])
def test_no_whole_numbers(text):
    with pytest.raises(ValueError, match="it must be a whole number"):
        numerals.whole_number(text)

"""A few of the calls of `scripts/fuzz_arguments.py`: all ranks return, or all raise the same error."""

from support.properties.argument_runs import Runner, run_on_simulated_ranks


def test_random_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a wrong path may be a name without a folder
    runner = Runner(seed=11)
    run_on_simulated_ranks(runner, 0, 60)
    assert sum(runner.counts.values()) >= 55 and len(runner.counts) > 5 and runner.counts["returned"] > 5
    assert not list(tmp_path.iterdir())

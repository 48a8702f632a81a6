"""Run the public conformance suite of the array API standard on `spmd_grid.array_api`.

    python scripts/array_api_conformance.py path/to/array-api-tests                  # on one process
    python scripts/array_api_conformance.py path/to/array-api-tests --ranks 4        # on simulated ranks

The suite (https://github.com/data-apis/array-api-tests, with its submodule) is not on the package index; give the path
of a copy.  It needs hypothesis, ndindex and pytest-json-report.

With several ranks the body of each test, hypothesis included, runs on every simulated rank, as an SPMD program does.
All ranks draw the same examples (``derandomize``).  If they ever did not, or if an array differed between them, their
operations would not match, which is an error of the run.  New arrays are cut along their longest dimension into blocks
of growing extent, of which the first are often empty.  Failing examples are not shrunk.

What is expected to fail is listed in tests/array_api/expected_failures.txt, a reason per line.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

EXPECTED = Path(__file__).resolve().parents[1] / "tests" / "array_api" / "expected_failures.txt"


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path, help="a copy of data-apis/array-api-tests")
    parser.add_argument("tests", nargs="*", default=["array_api_tests"], help="files of tests (default: all)")
    parser.add_argument("--ranks", type=int, default=1, help="simulated ranks (default: 1, the process itself)")
    parser.add_argument("--max-examples", type=int, default=20, help="examples per test (default: 20)")
    parser.add_argument(
        "--max-array-size", type=int, default=512, help="most cells per array, 64 times the longest side"
    )
    parser.add_argument("--expected", type=Path, default=EXPECTED, help="the list of expected failures")
    parser.add_argument("--report", type=argparse.FileType("w"), help="file for the names of tests that fail")
    return parser.parse_known_intermixed_args(arguments)


def expected_names(file):
    """The names of tests in the list, without the reasons behind them."""
    lines = [line.partition("  #")[0].strip() for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def uneven(grid):
    """The rule of shardings: blocks whose extents grow with the rank, along the longest dimension."""
    import spmd_grid as sg

    def rule(shape):
        if not shape:
            return sg.Sharding(grid, [])
        longest, extent = shape.index(max(shape)), max(shape)
        starts = [extent * k * k // grid.size**2 for k in range(grid.size + 1)]
        return sg.Sharding(grid, [*[[]] * longest, [0]], sharded_dims_offsets=[starts])

    return rule


class OnRanks:
    """A pytest plugin: bodies of tests run on simulated ranks, or as they are; outcomes are counted."""

    def __init__(self, ranks, report):
        self.ranks = ranks
        self.outcomes = Counter()
        self.report = report

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        from hypothesis import HealthCheck, Phase, settings

        # The clock must decide nothing: ranks would decide differently.
        settings.register_profile(
            "on ranks",
            settings(),
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("on ranks")

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        if self.ranks == 1:
            return None
        import spmd_grid as sg

        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}

        def body():
            grid = sg.init_grid((self.ranks,))
            with sg.use_sharding_defaults(grid, uneven(grid)):
                pyfuncitem.obj(**arguments)

        sg.run_spmd(body, ranks=self.ranks, seed=0)  # one rank at a time: hypothesis is not asked by several
        return True

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            expected = hasattr(report, "wasxfail")
            outcome = {"passed": "xpassed", "skipped": "xfailed"}[report.outcome] if expected else report.outcome
            self.outcomes[outcome] += 1
            if outcome == "failed" and self.report:
                self.report.write(f"{report.nodeid}\n")
                self.report.flush()


def main(arguments=None):
    options, others = parsed(arguments)
    os.environ["ARRAY_API_TESTS_MODULE"] = "spmd_grid.array_api"
    os.environ["ARRAY_API_TESTS_MAX_ARRAY_SIZE"] = str(options.max_array_size)
    import spmd_grid as sg

    # Hypothesis draws some numbers from the source of loaded modules: none may be loaded while ranks draw.
    for module in walk_packages(sg.__path__, "spmd_grid."):
        if "__main__" not in module.name:
            with suppress(ImportError):  # of an extra that is not installed
                import_module(module.name)
    plugin = OnRanks(options.ranks, options.report)
    options.expected = options.expected.resolve()
    os.chdir(options.suite)
    sys.path.insert(0, str(Path.cwd()))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(expected_names(options.expected)))
        names.flush()
        command = ["-q", "-p", "no:cacheprovider", f"--xfails-file={names.name}", "--disable-deadline"]
        command += [f"--max-examples={options.max_examples}"]
        # The suite makes arrays while it is being imported, and on one process runs as it is.
        with sg.use_sharding_defaults(sg.init_grid((1,))):
            code = pytest.main([*command, *others, *options.tests], plugins=[plugin])
    print(f"{options.ranks} ranks: " + ", ".join(f"{n} {name}" for name, n in sorted(plugin.outcomes.items())))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""What docs/debugging.md shows is what the examples print."""

import importlib.util
from pathlib import Path

import pytest
from support.jobs import needs_mpich

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "debugging_page.py"
spec = importlib.util.spec_from_file_location("debugging_page", SCRIPT)
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)

EXAMPLES = page.examples(page.PAGE.read_text())


@needs_mpich("others end jobs in words that the page does not show")
@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_prints_what_the_page_shows(command, shown):
    assert page.essence(page.run(command)) == page.essence(shown)


def test_numbers_and_order_do_not_count():
    assert page.essence("a 1.5 s\nb 2") == page.essence("b 77\n\na 0.25 s")
    assert page.essence("a   1.5 s, 3") == page.essence("a 20 ms,  4")
    assert page.essence("a 1.5 s") != page.essence("b 1.5 s")


def test_a_page_is_rewritten_block_by_block():
    text = "x\n```console\n$ echo 1\nold\n```\ny\n```\nz\n```\n"
    assert page.rewritten(text, lambda command: f"ran {command}\n") == text.replace("old", "ran echo 1")
    assert page.examples(text) == [("echo 1", "old\n")]
    assert page.run("echo hello; echo no >&2; exit 3") == "hello\nno\n[exit 3]\n"

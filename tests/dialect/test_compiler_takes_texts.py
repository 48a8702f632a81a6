"""A compiler takes all that we print, and we read what it prints; where none is installed, the words are looked at.

The compiler is LLVM's own, of `support/dialect/compiler`; ``scripts/check_with_compiler.py`` says how to get one, and
tries more texts.
"""

import re

import pytest

pytest.importorskip("xdsl")

from support.dialect.compiler import NO_COMPILER, faults, installed_compiler, spelled_lines
from support.dialect.compiler_texts import SUITES, printed_texts, random_texts, stages_of_examples, stages_of_programs
from support.dialect.upstream import compared_reshardings

WITH_COMPILER = pytest.mark.skipif(installed_compiler() is None, reason=NO_COMPILER)
# Operations that the stages of programs have; all are the dialect's, or LLVM's own.
WORDS = re.compile(
    r"(?:shard\.(?:grid|sharding|shard|all_gather|all_reduce|all_slice|all_to_all|reduce_scatter|update_halo"
    r"|process_multi_index)|func\.func|call|return|arith\.(?:constant|muli|addi|subi|minui|ceildivui)"
    r"|complex\.constant|tensor\.extract_slice)\b"
)
OWN = re.compile(r"[#!](?:shard\.shard|numpy)\b|\bpartial = ")  # attributes, types and words that no compiler has


def check(texts):
    """All texts are taken, and read again as what they were."""
    assert texts
    assert faults(installed_compiler(), texts) == {}


@WITH_COMPILER
@pytest.mark.parametrize("suite", SUITES)
def test_texts_are_taken(suite, request):
    texts = SUITES[suite]()
    step = 1 if request.config.getoption("full") or len(texts) < 40 else len(texts) // 40
    check(dict(list(texts.items())[::step]))


@WITH_COMPILER
def test_random_texts_are_taken(request):
    check(random_texts(100 if request.config.getoption("full") else 3))


@WITH_COMPILER
def test_operations_of_the_dialect_are_spelled_as_the_compiler_does():
    """Word for word, in what we print and in stages as they are written; the compiler has a blank too many at times."""
    compiler = installed_compiler()
    printed = [text for name, text in printed_texts().items() if name.endswith("printed")]
    texts = [*printed, *stages_of_programs().values()]
    for text, answer in zip(texts, compiler.answers(texts)):
        assert spelled_lines(compiler.spelled(text)) == spelled_lines(answer.text)


@WITH_COMPILER
def test_the_model_of_resharding_does_what_the_compiler_does(capsys):
    """On all pairs of small shardings; but for moves to a lower dimension, which LLVM 22 and 23 do otherwise."""
    assert compared_reshardings(installed_compiler()) == 0
    assert capsys.readouterr().out.count("alike") == 3


@pytest.mark.parametrize("texts", [stages_of_programs, stages_of_examples])
def test_stages_have_operations_of_the_compiler_alone(texts):
    """Without a compiler, too: no operation, attribute or type of our own is left in a stage."""
    for name, text in texts().items():
        for line in text.splitlines():
            operation = re.sub(r"^\s*(?:%[^=]*= )?", "", line)
            assert not operation or operation == "}" or WORDS.match(operation), (name, line)
            assert not OWN.search(re.sub(r'"[^"]*"', "", line)), (name, line)

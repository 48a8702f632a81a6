"""A compiler that has the shard dialect, where one is installed: what it takes, and what it prints.

`SPMD_GRID_MLIR_OPT` is the path of one; else ``mlir-opt`` of the PATH, or the ``catalyst`` that the package
pennylane-catalyst brings: LLVM's `mlir-opt` with more dialects.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from spmd_grid.dialect import parse, to_text
from spmd_grid.errors import DialectError

PROBE = (
    "shard.grid @g(shape = 2)\nfunc.func @f(%x: tensor<4xf32>) -> tensor<2xf32> {\n"
    "  %0 = shard.reduce_scatter %x on @g grid_axes = [0] scatter_dim = 0 : tensor<4xf32> -> tensor<2xf32>\n"
    "  return %0 : tensor<2xf32>\n}\n"
)
# What was renamed in the documented version, LLVM 23: the words of the version before.
RENAMED = {r"(?<![\w.])scatter_dim\b": "scatter_axis"}
_MODULE = re.compile(r'(?:\s*//.*\n|\s)*(?:module\b|builtin\.module\b|"builtin\.module")')
_ERROR = re.compile(r"(?:catalyst_module|<stdin>|-|[^\s:]*):(\d+):(\d+): error: (.*)")


class Answer(NamedTuple):
    """The compiler's: the text that it prints, or the first error."""

    text: str
    error: str

    @property
    def is_taken(self):
        return not self.error


class Compiler:
    """Runs a compiler on texts."""

    def __init__(self, path):
        self.path = str(path)
        self._is_catalyst = Path(path).name.startswith("catalyst")
        self.is_older = False
        if self._run(PROBE, []).error:
            self.is_older = True
            if self._run(PROBE, []).error:
                raise RuntimeError(f"{path} does not know the shard dialect")

    @property
    def version(self):
        """The version that it says of itself."""
        done = subprocess.run([self.path, "--version"], capture_output=True, text=True, check=False)
        return next((line.strip() for line in (done.stdout + done.stderr).splitlines() if "version" in line), "")

    def spelled(self, text):
        """A text in the words of the compiler's version."""
        for today, before in RENAMED.items() if self.is_older else ():
            text = re.sub(today, before, text)
        return text

    def answers(self, texts, *options):
        """The answer to each text.  All go as modules in one; where one is refused, halves of them are tried again."""
        texts = list(texts)
        if len(texts) == 1:
            return [self.answer(texts[0], *options)]
        whole = "".join([f"{_as_module(text)}\n" for text in texts])
        found = self.answer(f"module {{\n{whole}}}\n", "--mlir-print-local-scope", *options)
        if found.is_taken:
            parts = _modules(found.text)
            if len(parts) != len(texts):
                raise AssertionError(f"{len(parts)} texts came back of {len(texts)}")
            return [Answer(part, "") for part in parts]
        middle = len(texts) // 2
        return [*self.answers(texts[:middle], *options), *self.answers(texts[middle:], *options)]

    def answer(self, text, *options):
        """The answer to a text."""
        return self._run(text, list(options))

    def _run(self, text, options):
        passes = ["--empty"] if not any("-shard" in each or "pipeline" in each for each in options) else []
        command = [self.path, *(["--tool=opt", *passes] if self._is_catalyst else []), *options, "-"]
        done = subprocess.run(command, input=self.spelled(text), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return Answer(done.stdout, "")
        said = _ERROR.search(done.stderr)
        crash = (done.stderr.strip().splitlines() or ["nothing"])[0]
        return Answer("", f"{said[1]}:{said[2]}: {said[3]}" if said else f"status {done.returncode}: {crash}")


def _as_module(text):
    return text if _MODULE.match(text) else f"module {{\n{text}\n}}"


def _modules(text):
    """The modules inside a module that the compiler has printed, in either form."""
    lines, found, begun = text.splitlines(), [], None
    for number, line in enumerate(lines):
        if begun is None and line.startswith(("  module", '  "builtin.module"')):
            begun = number
        if begun is not None and (line.startswith("  }") or line.rstrip().endswith("{}")):
            found.append("\n".join(lines[begun : number + 1]))
            begun = None
    return found


def canonical(text):
    """A text as we print it, without the names of values and in one order of attributes.  Raises DialectError."""
    module = parse(text)
    for op in module.walk():
        op.attributes, op.properties = (dict(sorted(each.items())) for each in (op.attributes, op.properties))
        arguments = [x for region in op.regions for block in region.blocks for x in block.args]
        for value in (*op.results, *arguments):
            value.name_hint = None
    return to_text(module)


NO_COMPILER = "no compiler: SPMD_GRID_MLIR_OPT, mlir-opt or catalyst (pennylane-catalyst)"
FORMS = {"": (), " in generic form": ("--mlir-print-op-generic",)}


def faults(compiler, texts):
    """By name of a text: why the compiler refuses it, or why what it prints is not read as what it was."""
    found = {}
    for form, options in FORMS.items():
        given = {name: text for name, text in texts.items() if name not in found}
        for (name, text), answer in zip(given.items(), compiler.answers(given.values(), *options)):
            if not answer.is_taken:
                found[name] = f"refused: {answer.error}"
                continue
            try:
                if canonical(answer.text) != canonical(text):
                    found[name] = f"what the compiler prints{form} is read as another module"
            except DialectError as error:
                found[name] = f"what the compiler prints{form} is not read: {error}"
    return found


def spelled_lines(text):
    """The operations of the shard dialect as they are spelled, without names of values and the order of attributes."""
    found = [line.strip() for line in text.splitlines() if re.match(r"\s*(?:%[^=]*= )?shard\.", line)]
    bare = [re.sub(r"%[\w$.#:-]+", "%", re.sub(r"^%[^=]*= ", "", line)) for line in found]
    return [re.sub(r" +", " ", re.sub(r"\{.*?\}", "{}", line)) for line in bare]


@cache
def installed_compiler():
    """The compiler of this machine, or None.  RuntimeError where the one that is asked for has no shard dialect."""
    given = os.environ.get("SPMD_GRID_MLIR_OPT")
    if given:
        return Compiler(given)
    for place in (shutil.which("mlir-opt"), Path(sysconfig.get_path("scripts"), "catalyst")):
        if place and Path(place).exists():
            with suppress(RuntimeError):
                return Compiler(place)
    return None

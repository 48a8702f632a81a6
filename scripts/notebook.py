"""Run the cells of docs/notebook.ipynb, and compare what they print and show with the file; needs no Jupyter.

python scripts/notebook.py            # prints the differences, and exits with 1 if there are any
python scripts/notebook.py --write    # writes the outputs into the file
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from difflib import unified_diff
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs that its cells have now, all run in order in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            outputs = _outputs("".join(cell["source"]), names, number)
            cell = {**cell, "execution_count": number, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def text_of(notebook: dict[str, Any]) -> str:
    """The text of a notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The printed lines of a cell, and its last value where it ends in an expression, as Jupyter stores them."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> int:
    text = NOTEBOOK.read_text()
    current = text_of(executed(json.loads(text)))
    if "--write" in sys.argv[1:]:
        NOTEBOOK.write_text(current)
    elif current != text:
        print(f"{NOTEBOOK.relative_to(ROOT)} differs (-) from what its cells give (+):")
        print(*unified_diff(text.splitlines(), current.splitlines(), lineterm="", n=1), sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The notebook of the pages: its outputs are those that its cells give now."""

import importlib.util
import json
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "notebook.py"
spec = importlib.util.spec_from_file_location("notebook", SCRIPT)
notebook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebook)
TEXT = notebook.NOTEBOOK.read_text()


def test_outputs_are_those_of_the_cells():
    assert notebook.text_of(notebook.executed(json.loads(TEXT))) == TEXT


def test_its_form():
    found = json.loads(TEXT)
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])
    shown = [output for cell in found["cells"] for output in cell.get("outputs", [])]
    pictures = [each for each in shown if "image/svg+xml" in "".join(each.get("data", {}).get("text/html", []))]
    assert len(pictures) == 2 and any(each["output_type"] == "stream" for each in shown)


def test_a_changed_output_is_found(tmp_path, monkeypatch, capsys):
    page = tmp_path / "notebook.ipynb"
    page.write_text(TEXT.replace("sum 675", "sum 676"))
    monkeypatch.setattr(notebook, "ROOT", tmp_path)
    monkeypatch.setattr(notebook, "NOTEBOOK", page)
    monkeypatch.setattr(notebook.sys, "argv", ["notebook.py"])
    assert page.read_text() != TEXT and notebook.main() == 1
    assert "sum 676" in capsys.readouterr().out
    monkeypatch.setattr(notebook.sys, "argv", ["notebook.py", "--write"])
    assert notebook.main() == 0 and page.read_text() == TEXT

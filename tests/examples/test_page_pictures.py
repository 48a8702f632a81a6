"""The pictures of the pages are what their commands draw."""

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("page_pictures", ROOT / "scripts" / "page_pictures.py")
pictures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pictures)


def test_pictures_are_current():
    assert len(pictures.commands()) == 5
    assert pictures.differences() == []


def test_pictures_are_small_and_shown():
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for file in pictures.PICTURES.iterdir():
        assert f"](pictures/{file.name})" in pages
        assert file.stat().st_size < 20_000 and ElementTree.parse(file).getroot().tag.endswith("svg")


def test_a_stale_picture_is_found_and_drawn_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pictures, "PICTURES", tmp_path)
    monkeypatch.setattr(pictures.sys, "argv", ["page_pictures.py", "--write"])
    assert pictures.main() == 0 and pictures.differences() == []
    (tmp_path / "halo.svg").write_text("<svg/>")
    (tmp_path / "old.svg").write_text("<svg/>")
    monkeypatch.setattr(pictures.sys, "argv", ["page_pictures.py"])
    assert pictures.main() == 1
    assert capsys.readouterr().out == "halo.svg is not what its page draws\nold.svg is drawn by no page\n"

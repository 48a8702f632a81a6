"""Files changed at random: bits, lengths, and the values of JSON, with digests made right again."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

DEEP = "[" * 3000 + "]" * 3000
DIGESTED = ", with its digest"  # ends the words for a change that no digest shows
HOSTILE: tuple[Any, ...] = (
    *(2**62, 2**63, 2**64, 2**31, 10**30, -1, 0, 1, 3, 625, 0.5, 1e308, float("nan"), True, None),
    *("", "0", "\x1b[2J\x1b]0;owned\x07", "line\nline", "\udcff", "../../u", "x" * 5000, "|V500000000", "O", "<f8"),
    *("os.system", "pickle", "dtype", "7" * 5000),
    *([], {}, [2**40] * 3, [[]], {"": 0}, {"dict": {}}, {"array": "w"}, {"random": []}, {"bytes": "zz"}),
)


def _places(tree: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """All entries of dicts and lists in a tree."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        found.append((tree, key))
        _places(tree[key], found)
    return found


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def change_tree(rng: random.Random, tree: Any) -> None:
    """Change one entry of a tree of JSON."""
    places = _places(tree, [])
    if not places:
        return
    inside, key = rng.choice(places)
    how = rng.choice(["value", "value", "value", "number", "remove", "rename", "copy", "swap", "deep"])
    if how == "number" and type(inside[key]) in (int, float):
        inside[key] = rng.choice(
            [-inside[key], inside[key] + 1, inside[key] * 2**40, inside[key] - 1, str(inside[key])]
        )
    elif how == "remove":
        del inside[key]
    elif how == "rename" and isinstance(inside, dict):
        inside[rng.choice(["", "a/b", "\x1b[31m", "dict", "bytes", f"{key}x", "\udcff"])] = inside.pop(key)
    elif how == "copy" and isinstance(inside, dict):
        inside[f"{key}2"] = inside[key]
    elif how == "swap":
        other, at = rng.choice(places)
        inside[key] = json.loads(
            json.dumps(other.get(at) if isinstance(other, dict) else other[min(at, len(other) - 1)])
        )
    elif how == "deep":
        inside[key] = _nested(inside[key], rng.choice([40, 100, 400]))
    else:
        inside[key] = rng.choice(HOSTILE)


def digested(body: dict[str, Any]) -> str:
    """The text of a manifest whose digest is right."""
    body.pop("digest", None)
    digest = hashlib.sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()
    return json.dumps({**body, "digest": digest}, indent=1) + "\n"


def change_json(rng: random.Random, path: Path, has_digest: bool = False) -> str:
    """Change some entries of a file of JSON; says how."""
    tree = json.loads(path.read_text())
    for _ in range(rng.choice([1, 1, 2, 3])):
        change_tree(rng, tree)
    is_digested = has_digest and rng.random() < 0.9 and isinstance(tree, dict)
    text = digested(tree) if is_digested else json.dumps(tree, indent=1)
    if rng.random() < 0.03:
        text = text.replace("0", DEEP, 1)
    path.write_text(text)
    return f"json {path.name}{DIGESTED * is_digested}"


def change_lines(rng: random.Random, path: Path) -> str:
    """Change some lines of a trace; says how."""
    lines = path.read_text().splitlines()
    for _ in range(rng.choice([1, 2, 5])):
        at = rng.randrange(len(lines))
        try:
            tree = [json.loads(lines[at].rstrip(","))]
        except ValueError:
            continue
        change_tree(rng, tree)
        lines[at] = json.dumps(tree[0] if tree else None) + ","
    path.write_text("\n".join(lines) + "\n")
    return f"lines {path.name}"


def change_bytes(rng: random.Random, path: Path) -> str:
    """Change the bytes of a file; says how."""
    data = bytearray(path.read_bytes())
    how = rng.choice(["bits", "bits", "bits", "short", "long", "zeros", "text", "empty"])
    first = min(len(data), rng.choice([64, 256, len(data)]))  # headers more often than cells
    if how == "bits":
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(first)] ^= 1 << rng.randrange(8)
    elif how == "short":
        del data[rng.randrange(len(data)) :]
    elif how == "long":
        data += bytes(rng.randrange(256) for _ in range(rng.choice([1, 8, 5000])))
    elif how == "zeros":
        at = rng.randrange(first)
        data[at : at + 16] = bytes(len(data[at : at + 16]))
    elif how == "text":
        new = rng.choice([b"9999999999999", b"-1", b"|O8", b"<U9999999", b"\x1b[2J", b"((((((", b"2147483648", b"}"])
        at = rng.randrange(first)
        data[at : at + len(new)] = new
    else:
        data.clear()
    path.write_bytes(bytes(data))
    return f"{how} {path.name}"

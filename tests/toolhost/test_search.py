"""LS, Glob and Grep: what is found, in which order, and how much of it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rows import every_row
from tests.toolhost.client import Client

TREE = {
    "src/a.py": "import os\nneedle = 1\nlast\n", "src/deep/b.py": "Needle\n",
    "src/deep/c.ts": "needle needle\nneedle\n", "src/.hidden/d.py": "x\n", "top.py": "start\nend\n",
    "with space.txt": "needle\n", ".git/config.py": "needle\n", "ignored/e.py": "needle\n", ".gitignore": "ignored/\n",
    ".git/HEAD": "",
}  # fmt: skip


@pytest.fixture
def tree(root: Path) -> Path:
    """A small repository; each file is older than the one before it."""
    for n, (name, text) in enumerate(TREE.items()):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, ns=(10**18, 10**18 - n * 10**9))
    return root


def test_ls_shows_one_level_sorted(host: Client, tree: Path) -> None:
    (tree / "link").symlink_to("top.py")
    (tree / "two\nlines").touch()
    names = [".git/", ".gitignore", "ignored/", "link -> top.py", "src/", "top.py", '"two\\nlines"', "with space.txt"]
    assert host.call("LS", path=".").text.split("\n") == names
    assert host.call("LS", path=str(tree / "src"), ignore=["*.py", ".h*"]).text == "deep/"


def test_ls_shows_a_thousand_entries_at_most(host: Client, root: Path) -> None:
    (root / "empty").mkdir()
    (root / "many").mkdir()
    for n in range(1003):
        (root / f"many/{n:04}").touch()
    lines = host.call("LS", path="many").text.split("\n")
    assert (lines[0], lines[999], len(lines)) == ("0000", "0999", 1001)
    assert "3 more" in lines[1000]
    assert host.call("LS", path="empty").text == "(empty is empty)"
    assert "is a file" in host.call("LS", path="many/0001").text
    assert "Near names: many" in host.call("LS", path="mani").text
    assert host.call("LS", path="..").is_error


@pytest.mark.req("T4")
@every_row(
    ("arguments", "found"),
    (
        ({"pattern": "./*.py"}, ["top.py"]),
        ({"pattern": "**/*.py"}, ["src/a.py", "src/deep/b.py", "src/.hidden/d.py", "top.py", "ignored/e.py"]),
        ({"pattern": "src/**"}, ["src/a.py", "src/deep/b.py", "src/deep/c.ts", "src/.hidden/d.py"]),
        ({"pattern": "**/[bc].*"}, ["src/deep/b.py", "src/deep/c.ts"]),
        ({"pattern": "*", "path": "src/deep"}, ["src/deep/b.py", "src/deep/c.ts"]),
        ({"pattern": "{root}/src/*.py"}, ["src/a.py"]),
        ({"pattern": ".git/*"}, ["No files found"]),
        ({"pattern": "-x"}, ["No files found"]),
    ),
)
def test_glob_shows_the_newest_first(host: Client, tree: Path, arguments: dict[str, str], found: list[str]) -> None:
    got = host.call("Glob", **{name: value.replace("{root}", str(tree)) for name, value in arguments.items()})
    assert got.text.split("\n") == found


@pytest.mark.parametrize(
    ("arguments", "words"),
    (
        ({"pattern": "a[b"}, "not valid"),
        ({"pattern": "/etc/*"}, "outside"),
        ({"pattern": "*", "path": ".."}, "outside"),
    ),
)
def test_a_bad_glob_is_an_error(host: Client, tree: Path, arguments: dict[str, str], words: str) -> None:
    got = host.call("Glob", **arguments)
    assert got.is_error
    assert words in got.text


def test_glob_shows_a_hundred_files_at_most(host: Client, root: Path) -> None:
    for n in range(130):
        (root / f"{n}").touch()
    (root / "new\nest").touch()
    os.utime(root / "new\nest", (2**32, 2**32))
    lines = host.call("Glob", pattern="*").text.split("\n")
    assert lines[0] == '"new\\nest"'
    assert len(lines) == 101
    assert "31 more" in lines[100]


def test_searches_follow_no_symlink(host: Client, root: Path) -> None:
    (root.parent / "secret.py").write_text("needle")
    (root / "out").symlink_to("..")
    (root / "file-out.py").symlink_to("../secret.py")
    assert host.call("Glob", pattern="**/*.py").text == "No files found"
    assert host.call("Grep", pattern="needle").text == "No matches found"
    assert host.call("Grep", pattern="needle", path="out").is_error
    assert host.call("Grep", pattern="needle", path="file-out.py").is_error


@pytest.mark.req("T4")
@every_row(
    ("arguments", "found"),
    (
        ({"pattern": "needle"}, "src/a.py\nsrc/deep/c.ts\nwith space.txt"),
        ({"pattern": "needle", "glob": "*.{ts,txt}"}, "src/deep/c.ts\nwith space.txt"),
        ({"pattern": "needle", "glob": "!*.py"}, "src/deep/c.ts\nwith space.txt"),
        ({"pattern": "needle", "path": "src/deep"}, "src/deep/c.ts"),
        ({"pattern": "needle", "path": "src/a.py", "output_mode": "content"}, "src/a.py:2:needle = 1"),
        ({"pattern": "needle", "path": "src/a.py", "output_mode": "content", "-n": False}, "src/a.py:needle = 1"),
        (
            {"pattern": "needle", "path": "src/a.py", "output_mode": "content", "-C": 1},
            "src/a.py-1-import os\nsrc/a.py:2:needle = 1\nsrc/a.py-3-last",
        ),
        (
            {"pattern": "needle", "path": "src/a.py", "output_mode": "content", "-A": 1, "-B": 0},
            "src/a.py:2:needle = 1\nsrc/a.py-3-last",
        ),
        ({"pattern": "-e"}, "No matches found"),
        ({"pattern": "--files"}, "No matches found"),
        ({"pattern": "needle", "glob": ".git/**"}, "No matches found"),
        ({"pattern": "needle", "head_limit": 1}, "src/a.py\n(more follow: read on with offset=1, or search for less)"),
        ({"pattern": "needle", "head_limit": 2, "offset": 1}, "src/deep/c.ts\nwith space.txt"),
        ({"pattern": "needle", "offset": 9}, "No matches found after the first 9"),
        ({"pattern": "needle", "head_limit": 0}, "src/a.py\nsrc/deep/c.ts\nwith space.txt"),
    ),
)
def test_grep_has_ripgreps_modes_and_order(host: Client, tree: Path, arguments: dict[str, Any], found: str) -> None:
    got = host.call("Grep", options=arguments)
    assert (got.text, got.is_error) == (found, False)


@every_row(
    ("arguments", "words"),
    (
        ({"pattern": "a(b"}, "unclosed group"),
        ({"pattern": "(?=x)"}, "look-around"),
        ({"pattern": "x", "type": "nonsense"}, "unrecognized file type"),
        ({"pattern": "x", "path": "nowhere"}, "does not exist"),
        ({"pattern": "x", "path": "../.."}, "outside"),
        ({"pattern": "x", "output_mode": "nonsense"}, "output_mode is one of"),
        ({"pattern": "\ud800"}, "halves of characters"),
        ({"pattern": "a\0"}, "NUL"),
    ),
)
def test_ripgreps_refusals_are_told(host: Client, tree: Path, arguments: dict[str, str], words: str) -> None:
    got = host.call("Grep", **arguments)
    assert got.is_error
    assert words in got.text
    assert "--pcre2" not in got.text


@pytest.mark.req("T5", "X4")
def test_an_answer_of_grep_stays_small(host: Client, root: Path) -> None:
    (root / "lines").write_text("needle\n" * 100_000)
    (root / "long").write_text("needle" + "x" * 1_000_000)
    default = host.call("Grep", pattern="needle", output_mode="content", path="lines").text.split("\n")
    assert len(default) == 251
    assert default[-1] == "(more follow: read on with offset=250, or search for less)"
    assert len(host.call("Grep", pattern="needle", output_mode="content", path="long").text) < 700
    every = host.call("Grep", pattern="needle", output_mode="content", path="lines", head_limit=0).text
    assert 80_000 < len(every) < 110_000
    assert "more follow" in every


def test_grep_is_deterministic(host: Client, root: Path) -> None:
    for n in range(300):
        (root / f"{n % 7}").mkdir(exist_ok=True)
        (root / f"{n % 7}/{n}").write_text("needle\n" * (n % 5))
    answers = {host.call("Grep", pattern="needle", output_mode="content", head_limit=50).text for _ in range(5)}
    assert len(answers) == 1


def test_grep_orders_few_and_many_alike(host: Client, root: Path) -> None:
    for n in range(2100):
        (root / f"d{n % 3}").mkdir(exist_ok=True)
        (root / f"d{n % 3}/{n:04}").write_text("needle" if n % 9 == 0 else "all")
    (root / "d0.txt").write_text("needle all")
    assert host.call("Grep", pattern="needle", head_limit=2).text.split("\n")[:2] == ["d0/0000", "d0/0009"]
    many = host.call("Grep", pattern="all|needle", head_limit=4, offset=699).text.split("\n")
    assert many[:4] == ["d0/2097", "d0.txt", "d1/0001", "d1/0004"]
    assert host.call("Grep", pattern="needle", offset=233).text.split("\n")[0] == "d0/2097"


@pytest.mark.req("T4")
@pytest.mark.parametrize("odd", ("plain", "new\nline"))
def test_grep_orders_lines_as_ripgrep_does(host: Client, root: Path, odd: str) -> None:
    for n, name in enumerate(("b:1:x/z", "b", "a.b", "a/b", "a/0", "a b/-2-", "é", odd)):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("needle 1\n\nneedle 2\n" * n)
    (root / "binary").write_bytes(b"needle\n\0\nneedle\n")
    ordered = host.call("Grep", options={"pattern": "needle", "output_mode": "content", "-C": 0}).text
    assert host.call("Grep", pattern="needle", output_mode="content").text == ordered
    counted = host.call("Grep", pattern="needle", output_mode="count", glob="{a*,a*/**}").text
    assert counted == "a/0:8\na/b:6\na b/-2-:10\na.b:4"


def test_a_missing_ripgrep_is_said(open_host: Callable[..., Client]) -> None:
    assert "not installed" in open_host(rg="no-such-program").call("Grep", pattern="x").text

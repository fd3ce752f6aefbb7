"""What each tool does with files as they are found in the world: one row, one claim, to be read as a reference.

Each row makes some files in a folder of its own, calls one tool there, and says what comes back and what the files are
then. What is edited was read before, unless the row says that it has changed since.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from tests.rows import every_row
from tests.toolhost.client import Client

Made: TypeAlias = "bytes | Callable[[Path], object]"


class Row(NamedTuple):
    """One case: the files, the call, what it says, and what the files hold afterwards.

    What is found is given whole, or its end behind "..."; of an error and of a change, words; "!" is any error.
    """

    case: str
    files: Mapping[str, Made]
    call: str
    says: str
    after: Mapping[str, bytes] = {}
    """Where this is empty, the files of bytes are as they were."""


def link(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def hard_link(target: str) -> Callable[[Path], object]:
    return lambda path: path.hardlink_to(path.parent / target)


def sock(path: Path) -> None:
    above = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{above}/{path.name}")
    os.close(above)


def mode(bits: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        path.write_bytes(b"old\n")
        path.chmod(bits)

    return make


LONG = b"x" * (1 << 20)
MANY = b"".join(b"%d\n" % n for n in range(1, 100_001))
MIXED = b"a\nb\r\nc\rd\n"
CASE = b"import os\n\nclass A:\n    needle = 1\n\n\ndef f():\n    return needle\n"
REPO = {".git/HEAD": b"", ".gitignore": b"out/\n*.log\n!keep.log\n", "out/a.py": b"needle\n", "a.py": b"needle\n"}
REPO |= {"x.log": b"needle\n", "keep.log": b"needle\n", "sub/.gitignore": b"/b.py\n", "sub/b.py": b"needle\n"}
WORLD = {"a.py": CASE, "b.ts": b"needle\nNEEDLE\n", "d/c.md": b"# needle\n", "d/e/f.py": b"x\n", ".h/g.py": b"y\n"}
NAMES = {"[a].py": b"1\n", "a.py": b"2\n", "{b}.py": b"3\n", "b.py": b"4\n", "s p.py": b"5\n", "-c.py": b"6\n"}

READ = (
    Row("mixed ends", {"f": MIXED}, "Read f", "1\ta\n2\tb\n3\tc\rd\n(lines end with CRLF; Edit keeps that)"),
    Row("no last newline", {"f": b"a\nb"}, "Read f offset=2", "2\tb"),
    Row("only a newline mark", {"f": b"\xef\xbb\xbf"}, "Read f", "1\t"),
    Row("mark in the middle", {"f": b"a\xef\xbb\xbfb\n"}, "Read f", "1\ta\ufeffb"),
    Row("a line of 1 MiB", {"f": LONG + b"\nlast\n"}, "Read f offset=2", "2\tlast"),
    Row("a line of 1 MiB, cut", {"f": LONG}, "Read f", "... [cut: the line is longer than 2,000 characters]"),
    Row("line 100,000", {"f": MANY}, "Read f offset=100000", "100000\t100000"),
    Row("beyond 100,000 lines", {"f": MANY}, "Read f offset=100001", "has only 100000 lines"),
    Row("NUL beyond the first 8 KiB", {"f": b"a\n" * 5000 + b"\0\n"}, "Read f offset=5001", "5001\t\ufffd"),
    Row("UTF-16 without a mark", {"f": "text".encode("utf-16-le")}, "Read f", "binary file of 8 bytes"),
    Row("broken UTF-8", {"f": b"ok \xff\xfe\x80\n"}, "Read f", "...(the file is not UTF-8: it is shown as Latin-1)"),
    Row("control characters", {"f": b"\x1b[31mred\x07\n"}, "Read f", "1\t\x1b[31mred\x07"),
    Row("line separators are text", {"f": "a\u2028b\x0cc\x85d\n".encode()}, "Read f", "1\ta\u2028b\x0cc\x85d"),
    Row("limit 1", {"f": b"a\nb\n"}, "Read f limit=1", "1\ta\n(more lines follow: read on with offset=2)"),
    Row("offset 0", {"f": b"a\n"}, "Read f offset=0", "1\ta"),
    Row("negative offset", {"f": b"a\nb\n"}, "Read f offset=-5", "1\ta\n2\tb"),
    Row("empty, with an offset", {"f": b""}, "Read f offset=7", "(f is empty)"),
    Row("folder", {"d/x": b""}, "Read d", "d is a folder: use LS to list it."),
    Row("pipe", {"p": os.mkfifo}, "Read p", "p is not a regular file."), Row("socket", {"s": sock}, "Read s", "!"),
    Row("device by a link", {"z": link("/dev/zero")}, "Read z", "leads outside"),
    Row("link to a link", {"a": link("b"), "b": link("c"), "c": b"x\n"}, "Read a", "1\tx"),
    Row("link in a circle", {"a": link("b"), "b": link("a")}, "Read a", "!"),
    Row("dangling link", {"a": link("none")}, "Read a", "a does not exist."),
    Row("linked folder", {"d/f": b"x\n", "l": link("d")}, "Read l/f", "1\tx"),
    Row("link to its own folder", {"d/f": b"x\n", "d/up": link(".")}, "Read d/up/up/up/f", "1\tx"),
    Row("name of a dash", {"-": b"x\n"}, "Read -", "1\tx"),
    Row("name that is no UTF-8", {"\udcff": b"x\n"}, "Read \udcff", "1\tx"),
    Row("name of 255 bytes", {"n" * 255: b"x\n"}, "Read " + "n" * 255, "1\tx"),
    Row("name that is too long", {}, "Read " + "n" * 256, "!"),
    Row("path below a file", {"f": b"x"}, "Read f/g", "does not exist"),
    Row("picture by its name alone", {"a.png": b"text\n"}, "Read a.png", "1\ttext"),
)  # fmt: skip

WRITE = (
    Row("edit at mixed ends", {"f": MIXED}, "Edit f d=>e", "1 replacement", {"f": b"a\nb\r\nc\re\n"}),
    Row("edit keeps a lone return", {"f": b"a\rb\rc"}, "Edit f b=>x", "1 replacement", {"f": b"a\rx\rc"}),
    Row("edit beside a mark", {"f": b"\xef\xbb\xbfa\r\n"}, "Edit f a=>b", "1 repl", {"f": b"\xef\xbb\xbfb\r\n"}),
    Row("edit in a line of 1 MiB", {"f": LONG + b"y" + LONG}, "Edit f y=>z", "1 repl", {"f": LONG + b"z" + LONG}),
    Row("edit of line 100,000", {"f": MANY}, "Edit f 99999\n100000=>end", "1 repl", {"f": MANY[:-13] + b"end\n"}),
    Row("edit of UTF-16", {"f": "ab".encode("utf-16")}, "Edit f a=>b", "!"),
    Row("edit keeps no last newline", {"f": b"a\nb"}, "Edit f b=>c", "1 repl", {"f": b"a\nc"}),
    Row("edit to nothing", {"f": b"a"}, "Edit f a=>", "1 repl", {"f": b""}),
    Row("edit of an empty file", {"f": b""}, "Edit f =>x", "f", {"f": b"x"}),
    Row("edit of a missing file", {}, "Edit f a=>b", "f does not exist"),
    Row("edit without a match", {"f": b"one\ntwo\n"}, "Edit f three=>x", "not in the file. It must be exact"),
    Row("edit with another indent", {"f": b"b\n\ta:\n"}, "Edit f   a:=>x", "Line 2 differs from it only in white"),
    Row("edit with two matches", {"f": b"a\na\n"}, "Edit f a=>b", "there 2 times. Add"),
    Row("edit of all matches", {"f": b"a\r\na\r\n"}, "Edit* f a=>b", "2 replacements", {"f": b"b\r\nb\r\n"}),
    Row("edit of all that is apart", {"f": b"aaa a\r\nb aa"}, "Edit* f aa=>x", "2 repl", {"f": b"xa a\r\nb x"}),
    Row("edit with the same text", {"f": b"a\n"}, "Edit f a=>a", "the same"),
    Row("edit of what changed", {"f": b"a\n"}, "Edit! f a=>b", "has changed since it was read"),
    Row("edit of what was removed", {"f": b"a\n"}, "Edit- f a=>b", "f does not exist"),
    Row("edit through a link", {"f": b"a\n", "l": link("f")}, "Edit l a=>b", "1 repl", {"f": b"b\n", "l": b"b\n"}),
    Row("edit through a link out", {"l": link("/etc/hostname")}, "Edit l a=>b", "leads outside"),
    Row("edit of a pipe", {"p": os.mkfifo}, "Edit p a=>b", "not a regular file"),
    Row("edit of a folder", {"d/f": b""}, "Edit d a=>b", "d is a folder"),
    Row("edit of a read-only file", {"f": mode(0o400)}, "Edit f old=>new", "1 repl", {"f": b"new\n"}),
    Row("edit with special signs", {"f": b"a$1\\n&\n"}, "Edit f $1\\n=>\\0$&", "1 repl", {"f": b"a\\0$&&\n"}),
    Row(
        "edit breaks a hard link", {"f": b"a\n", "h": hard_link("f")}, "Edit f a=>b", "1 repl",
        {"f": b"b\n", "h": b"a\n"},
    ),
    Row("all edits", {"f": b"a b\n"}, "MultiEdit f a=>x|b=>y", "2 repl", {"f": b"x y\n"}),
    Row("edits one upon the other", {"f": b"a\n"}, "MultiEdit f a=>b|b=>c", "2 repl", {"f": b"c\n"}),
    Row("one edit of three fails", {"f": b"a b\n"}, "MultiEdit f a=>x|z=>y|b=>c", "Edit 2 of 3: old_string is not in"),
    Row("edits that undo each other", {"f": b"a"}, "MultiEdit f a=>b|b=>a", "undo each other"),
    Row("edits that make a file", {}, "MultiEdit d/e/f =>a\n|a=>b", "2 repl", {"d/e/f": b"b\n"}),
    Row("the first edit fails", {"f": b"a b\n"}, "MultiEdit f z=>x|a=>y", "Edit 1 of 2"),
    Row("edits make the text twice", {"f": b"a b\n"}, "MultiEdit f a=>b|b=>c", "2 times"),
    Row("write a new file", {}, "Write d/e/f x\r\nж", "Created d/e/f (5 bytes).", {"d/e/f": "x\r\nж".encode()}),
    Row("write below a file", {"f": b"x"}, "Write f/g y", "a part of its path is a file"),
    Row("write over a file", {"f": b"a\r\n"}, "Write f b\n", "Replaced f (2 bytes).", {"f": b"b\n"}),
    Row("write nothing", {"f": b"a\n"}, "Write f ", "Replaced f (0 bytes).", {"f": b""}),
    Row("write over what changed", {"f": b"a\n"}, "Write! f b", "has changed since it was read"),
    Row("write anew what was removed", {"f": b"a\n"}, "Write- f b", "Created f", {"f": b"b"}),
    Row("write to a dangling link", {"l": link("new")}, "Write l x", "Created l", {"new": b"x"}),
    Row("write to a folder", {"d/f": b""}, "Write d x", "d is a folder"),
    Row("write to a socket", {"s": sock}, "Write s x", "!"),
    Row("write a name with a newline", {}, "Write two\nlines x", "Created", {"two\nlines": b"x"}),
    Row("write a name that is no UTF-8", {}, "Write \udcff x", "Created \ufffd", {"\udcff": b"x"}),
    Row("write a name that is too long", {}, "Write " + "n" * 256 + " x", "!"),
)  # fmt: skip

SEARCH = (
    Row("ls of a pipe and links", {"p": os.mkfifo, "l": link("/etc"), "x": b""}, "LS .", "l -> /etc\np\nx"),
    Row("ls of odd names", {"a\tb": b"", "\udcff": b"", "-n": b""}, "LS .", '-n\n"a\\tb"\n"\\udcff"'),
    Row("ls of a dangling link", {"l": link("none")}, "LS .", "l -> none"),
    Row("ls of a linked folder", {"d/f": b"", "l": link("d")}, "LS l", "f"),
    Row("ls of a folder linked out", {"l": link("/etc")}, "LS l", "leads outside"),
    Row("glob of all", WORLD, "Glob **", ".h/g.py\na.py\nb.ts\nd/c.md\nd/e/f.py"),
    Row("glob of one level", WORLD, "Glob *", "a.py\nb.ts"),
    Row("glob of folders between", WORLD, "Glob d/**/*.py", "d/e/f.py"),
    Row("glob with no folder between", WORLD, "Glob d/**/*.md", "d/c.md"),
    Row("glob with braces", WORLD, "Glob **/*.{md,ts}", "b.ts\nd/c.md"),
    Row("glob with a question mark", WORLD, "Glob ?.py", "a.py"),
    Row("glob of nothing", WORLD, "Glob *.rs", "No files found"),
    Row("glob of a folder's name", WORLD, "Glob d", "No files found"),
    Row("glob upwards", WORLD, "Glob ../**", "No files found"),
    Row("glob with brackets escaped", NAMES, "Glob \\[a\\].py", "[a].py"),
    Row("glob with braces escaped", NAMES, "Glob \\{b\\}.py", "{b}.py"),
    Row("glob with a class", NAMES, "Glob [ab].py", "a.py\nb.py"),
    Row("glob with a negated class", NAMES, "Glob [!ab].py", "No files found"),
    Row("glob with a space", NAMES, "Glob s p.py", "s p.py"), Row("glob with a dash", NAMES, "Glob -c.py", "-c.py"),
    Row("glob with a bang", NAMES, "Glob !a.py", "No files found"),
    Row("glob of a name that is no UTF-8", {"\udcff.py": b""}, "Glob *.py", '"\\udcff.py"'),
    Row("grep for names", WORLD, "Grep needle", "a.py\nb.ts\nd/c.md"),
    Row("grep for a hidden file", WORLD, "Grep y$", ".h/g.py"),
    Row("grep counts", WORLD, "Grep needle output_mode=count", "a.py:2\nb.ts:1\nd/c.md:1"),
    Row("grep of one type", WORLD, "Grep needle type=ts", "b.ts"),
    Row("grep by glob", WORLD, "Grep needle glob=**/d/*", "d/c.md"),
    Row("grep without case", WORLD, "Grep needle -i=1 glob=*.ts output_mode=content", "b.ts:1:needle\nb.ts:2:NEEDLE"),
    Row(
        "grep with lines before", WORLD, "Grep return -B=1 output_mode=content",
        "a.py-7-def f():\na.py:8:    return needle",
    ),
    Row("grep over lines", WORLD, "Grep class.A:\\s+needle multiline=1", "a.py"),
    Row("grep within one line", WORLD, "Grep A:\\s+needle", "No matches found"),
    Row("grep with a head limit", WORLD, "Grep needle head_limit=1", "...a.py\n(more follow: read on with offset=1"),
    Row("grep of a broken pattern", WORLD, "Grep [a", "unclosed character class"),
    Row("grep for a dash", {"f": b"--x\n"}, "Grep --x", "f"),
    Row("grep keeps to .gitignore", REPO, "Grep needle", "a.py\nkeep.log"),
    Row("grep of an ignored file by path", REPO, "Grep needle path=out/a.py", "out/a.py"),
    Row("grep of binary files", {"f": b"\0needle\n"}, "Grep needle", "No matches found"),
    Row("grep of CRLF", {"f": b"needle\r\n"}, "Grep needle$ output_mode=content", "No matches found"),
    Row("grep of UTF-16", {"f": "needle\n".encode("utf-16")}, "Grep needle", "f"),
    Row("grep of Latin-1", {"f": b"n\xe9edle caf\xe9\n"}, "Grep edle output_mode=content", "f:1:n\ufffdedle caf\ufffd"),
    Row("grep of an odd name", {"a\nb": b"needle\n"}, "Grep needle", '"a\\nb"'),
    Row("grep of a pipe", {"p": os.mkfifo, "f": b"needle\n"}, "Grep needle", "f"),
    Row("grep in a pipe", {"p": os.mkfifo}, "Grep needle path=p", "p is not a regular file."),
    Row("grep of a circle of links", {"d/up": link(".."), "d/f": b"needle\n"}, "Grep needle", "d/f"),
)  # fmt: skip
CHANGING = frozenset({"Edit", "MultiEdit", "Write"})
ROWS = (*READ, *WRITE, *SEARCH)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = Client(tmp_path_factory.mktemp("reference"))
    yield client
    client.close()


def plant(folder: Path, files: Mapping[str, Made]) -> None:
    """Make the files, all of one age, so that Glob orders them by name."""
    folder.mkdir()
    for name, made in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made) if isinstance(made, bytes) else made(path)
        os.utime(path, (10**9, 10**9), follow_symlinks=False)


def edits(text: str) -> list[dict[str, str]]:
    """Read ``old=>new|old=>new``."""
    pairs = (one.partition("=>") for one in text.split("|"))
    return [{"old_string": old, "new_string": new} for old, _, new in pairs]


def asked(call: str, at: str) -> tuple[str, dict[str, Any]]:
    """Read a call: the tool, its file or pattern, then text, edits or options."""
    operation, _, rest = call.partition(" ")
    tool = operation.rstrip("*!-")
    if tool in CHANGING:
        name, _, text = rest.partition(" ")
        given: dict[str, dict[str, Any]] = {
            "Write": {"content": text},
            "Edit": {**edits(text)[0], **({"replace_all": True} if "*" in operation else {})},
            "MultiEdit": {"edits": edits(text)},
        }  # fmt: skip
        return tool, {"file_path": f"{at}/{name}", **given[tool]}
    words = rest.split(" ")
    options: dict[str, Any] = dict(word.split("=", 1) for word in words if "=" in word)
    subject = " ".join(word for word in words if "=" not in word)
    options = {key: int(value) if value.lstrip("-").isdigit() else value for key, value in options.items()}
    match tool:
        case "Read":
            return tool, {"file_path": f"{at}/{subject}", **options}
        case "LS":
            return tool, {"path": f"{at}/{subject}"}
        case _:
            return tool, {"pattern": subject, **options, "path": f"{at}/{options.get('path', '')}"}


@pytest.mark.req("T4", "T5")
@every_row(("number", "row"), tuple(enumerate(ROWS)))
def test_each_row_says_and_leaves_what_is_true(desk: Client, number: int, row: Row) -> None:
    at = f"{number:03}"
    folder = desk.root / at
    plant(folder, row.files)
    tool, arguments = asked(row.call, at)
    sign = row.call.partition(" ")[0][-1]
    if tool in CHANGING:
        arguments["stamp"] = desk.call("Read", file_path=arguments["file_path"]).stamps.get(arguments["file_path"], "")
    if sign == "!":
        (folder / "f").write_bytes(b"changed\n")
    elif sign == "-":
        (folder / "f").unlink()
    got = desk.call(tool, options=arguments)
    text = got.text.replace(f"{at}/", "")
    if row.says == "!":
        assert got.is_error
    elif got.is_error or tool in CHANGING or row.says.startswith("..."):
        assert row.says.removeprefix("...") in text
    else:
        assert text == row.says
    kept = {name: made for name, made in row.files.items() if isinstance(made, bytes)}
    after = row.after or (kept if sign not in "!-" else {})
    assert {name: (folder / name).read_bytes() for name in after} == after
    assert not list(folder.rglob(".plangate-*"))

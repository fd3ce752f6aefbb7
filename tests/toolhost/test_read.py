"""Read: what a slice of a file looks like, and what is refused; and which files changed since they were read (T7)."""

import base64
import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.toolhost.operation import EVERY
from tests.rows import every_row
from tests.toolhost.client import Client
from tests.toolhost.pictures import JPEG, WEBP, png

PNG = png()


@pytest.mark.req("T4")
@every_row(
    ("content", "arguments", "shown"),
    (
        (b"one\ntwo\n", {}, "1\tone\n2\ttwo"),
        (b"one\n\n", {}, "1\tone\n2\t"),
        (b"\n", {}, "1\t"),
        (b"a\nb\nc\n", {"offset": 2, "limit": 1}, "2\tb\n(more lines follow: read on with offset=3)"),
        (b"a\nb\nc", {"limit": 3}, "1\ta\n2\tb\n3\tc"),
        (b"a\r\nb\r\n", {}, "1\ta\n2\tb\n(lines end with CRLF; Edit keeps that)"),
        (b"\xef\xbb\xbfa\n", {}, "1\ta"),
        ("ж€😀\n".encode(), {}, "1\tж€😀"),
        (b"caf\xe9\n", {}, "1\tcafé\n(the file is not UTF-8: it is shown as Latin-1)"),
        (b"x" * 2000 + b"\ny\n", {}, "1\t" + "x" * 2000 + "\n2\ty"),
        (b"x" * 2001 + b"\ny\n", {}, "1\t" + "x" * 2000 + " [cut: the line is longer than 2,000 characters]\n2\ty"),
        ("€".encode() * 9000, {}, "1\t" + "€" * 2000 + " [cut: the line is longer than 2,000 characters]"),
        (("x" + "😀" * 9000).encode(), {}, "1\tx" + "😀" * 1999 + " [cut: the line is longer than 2,000 characters]"),
    ),
)
def test_slices_are_numbered(host: Client, root: Path, content: bytes, arguments: dict[str, int], shown: str) -> None:
    (root / "f").write_bytes(content)
    got = host.call("Read", file_path="f", **arguments)
    assert (got.text, got.is_error) == (shown, False)


@pytest.mark.req("T5")
def test_2000_lines_are_shown_without_a_limit(host: Client, root: Path) -> None:
    (root / "f").write_text("".join(f"{n}\n" for n in range(1, 5001)))
    lines = host.call("Read", file_path="f").text.split("\n")
    assert lines[1999] == "2000\t2000"
    assert lines[2000:] == ["(more lines follow: read on with offset=2001)"]


@pytest.mark.req("T5")
def test_reading_on_after_the_cap_misses_nothing(host: Client, root: Path) -> None:
    wanted = [f"{n}" + "ж" * 700 for n in range(200)]
    (root / "f").write_text("\n".join(wanted))
    seen: list[str] = []
    offset = 1
    while offset:
        text = host.call("Read", file_path="f", offset=offset).text
        assert len(text.encode()) < 100_100
        *lines, last = text.split("\n")
        offset = int(last.rpartition("=")[2].rstrip(")")) if last.startswith("(more") else 0
        seen += [line.partition("\t")[2] for line in (lines if offset else [*lines, last])]
    assert seen == wanted


@every_row(
    ("content", "arguments", "words"),
    (
        (b"a\nb\n", {"offset": 3}, "only 2 lines"),
        (b"a\nb", {"offset": 9}, "only 2 lines"),
        (b"a", {"offset": 2}, "only 1 line:"),
        (b"PK\x03\x04\0\0", {}, "binary file of 6 bytes"),
        (PNG + bytes(5_000_000), {}, "too large"),
        (PNG[:-9], {}, "broken or incomplete"),
        (PNG[:40] + PNG[45:], {}, "broken or incomplete"),
        (png(pixels=b"no pixels"), {}, "broken or incomplete"),
        (png(9000, 2), {}, "9000 x 2 pixels"),
        (JPEG[:-2], {}, "broken or incomplete"),
        (b"GIF89a", {}, "broken or incomplete"),
        (WEBP[:-9], {}, "broken or incomplete"),
        (b"%PDF-1.7\n", {}, "pdftotext"),
        ("text".encode("utf-16"), {}, "iconv"),
    ),
)
def test_refused_files_say_why(host: Client, root: Path, content: bytes, arguments: dict[str, int], words: str) -> None:
    (root / "f").write_bytes(content)
    got = host.call("Read", file_path="f", **arguments)
    assert got.is_error
    assert words in got.text


def test_a_missing_file_has_near_names(host: Client, root: Path) -> None:
    (root / "src").mkdir()
    (root / "src/Parser.py").touch()
    assert (
        host.call("Read", file_path="src/parser.py").text == "src/parser.py does not exist. Near names: src/Parser.py"
    )
    assert "Near names: src" in host.call("Read", file_path="srx/deep/x.py").text
    assert host.call("Read", file_path="src/Parser.py/x").is_error


@every_row(
    ("content", "media_type"),
    ((PNG, "image/png"), (JPEG, "image/jpeg"), (b"GIF89a\x02\0\x02\0\0\0\0;", "image/gif"), (WEBP, "image/webp")),
)
def test_an_image_is_known_by_its_bytes(host: Client, root: Path, content: bytes, media_type: str) -> None:
    (root / "picture.txt").write_bytes(content)
    (block,) = host.call("Read", file_path="picture.txt").blocks
    assert block["source"]["media_type"] == media_type
    assert base64.b64decode(block["source"]["data"]) == content


@every_row("name", ("a b", 'it\'s "x"', "two\nlines", "-n", "ж", "$(x)", "[a]*?"))
def test_a_file_is_read_whatever_its_name(host: Client, root: Path, name: str) -> None:
    (root / name).write_text("inside")
    got = host.call("Read", file_path=name)
    assert got.text == "1\tinside"
    assert list(got.stamps) == [name]


@pytest.mark.req("T4")
@every_row("path", ("d/f", "./d//f", "d/../d/f", "{root}/d/f", "{root}/./d/f", "//{root}/d/f"))
def test_a_stamp_stands_under_the_shortest_name(host: Client, root: Path, path: str) -> None:
    (root / "d").mkdir(exist_ok=True)
    (root / "d/f").write_text("x")
    got = host.call("Read", file_path=path.format(root=root))
    assert got.stamps == {"d/f": "1-" + hashlib.blake2b(b"x", digest_size=16).hexdigest()}


@every_row("path", ("../secret", "d/../../secret", "/etc/passwd", "{root}/../secret", "{root}x", "a\0b"))
def test_no_path_leads_out(host: Client, root: Path, path: str) -> None:
    (root / "../secret").write_text("secret")
    got = host.call("Read", file_path=path.format(root=root))
    assert got.is_error
    assert "outside" in got.text or "characters" in got.text


def test_no_symlink_leads_out(host: Client, root: Path) -> None:
    (root / "../secret").write_text("secret")
    (root / f"../{root.name}-too").write_text("secret")
    (root / "folder-out").symlink_to("..")
    assert host.call("Read", file_path="folder-out/secret").is_error
    for n, target in enumerate(("../secret", "/etc/passwd", "2", "folder-out/secret", f"{root}-too")):
        (root / str(n)).symlink_to(target)
        got = host.call("Read", file_path=str(n))
        assert (got.is_error, "root:" in got.text, got.text[-6:] == "secret") == (True, False, False), target


def test_symlinks_inside_are_followed(host: Client, root: Path) -> None:
    (root / "f").write_text("x")
    (root / "link").symlink_to(root / "f")
    got = host.call("Read", file_path="link")
    assert got.text == "1\tx"
    assert got.stamps == {"link": host.call("Read", file_path="f").stamps["f"]}


def test_the_root_may_be_reached_by_a_symlink(open_host: Callable[..., Client], root: Path) -> None:
    (root / "f").write_text("x")
    shown = root.parent / "shown"
    shown.symlink_to(root)
    host = open_host(shown)
    assert not host.call("Read", file_path=f"{shown}/f").is_error
    assert not host.call("Read", file_path=f"{root}/f").is_error
    assert not host.bash("cd .. ; cd checkout; cat f").is_error


@pytest.mark.req("T5")
def test_the_beginning_of_a_huge_file_is_read_alone(host: Client, root: Path) -> None:
    with open(root / "huge", "wb") as file:
        file.write(b"first\n" + b"x" * 100_000)
        file.truncate(8 << 30)
    got = host.call("Read", file_path="huge", limit=1)
    assert got.text == "1\tfirst\n(more lines follow: read on with offset=2)"
    status = (root / "huge").stat()
    assert got.stamps == {"huge": f"{status.st_size}-{status.st_mtime_ns}"}
    assert host.peak_mb() < 49


@pytest.mark.req("T4")
@pytest.mark.parametrize("end", (b"", b"\n", b"last"))
def test_deep_slices_of_a_large_file_are_the_same_in_any_order(host: Client, root: Path, end: bytes) -> None:
    dice = random.Random(5)
    lengths = [9_000_000 if n % 900 == 450 else dice.choice((0, 1, 70, 300, 5_000)) for n in range(2_000)]
    lines = [str(n).encode() + b"x" * length for n, length in enumerate(lengths)]
    content = b"\n".join(lines) + end
    content += b"y" * (-len(content) % EVERY)
    lines = content.split(b"\n") if content[-1:] != b"\n" else content.split(b"\n")[:-1]
    (root / "f").write_bytes(content)
    time.sleep(0.2)  # a file that changes just now is counted anew each time
    long = [n for n, line in enumerate(lines, 1) if len(line) > EVERY]
    assert len(long) > 1
    for offset in [len(lines), *(dice.randint(1, len(lines)) for _ in range(20)), *long, *(n + 1 for n in long[:-1])]:
        text = host.call("Read", file_path="f", offset=offset, limit=1).text.splitlines()[0]
        assert text.startswith(f"{offset}\t{lines[offset - 1][:1000].decode()}"), offset
    for _ in range(2):
        got = host.call("Read", file_path="f", offset=len(lines) + 1)
        assert f"has only {len(lines)} lines" in got.text


@pytest.mark.long
@pytest.mark.req("T4")
def test_a_large_file_that_changes_is_counted_anew(host: Client, root: Path) -> None:
    for first in (10_000_000, 100_000_000):
        (root / "f").write_text("\n".join(map(str, range(first, first + 18_000_000 // len(str(first))))) + "\n")
        time.sleep(0.2)
        for offset in (1_500_000, 1_000_000):
            got = host.call("Read", file_path="f", offset=offset, limit=1)
            assert got.text.startswith(f"{offset}\t{first + offset - 1}\n")


@pytest.mark.long
@pytest.mark.req("T4", "T5")
def test_lines_before_a_slice_are_counted_once(host: Client, root: Path) -> None:
    with open(root / "huge", "wb") as file:
        for _ in range(256):
            file.write(b"one line of a file that is larger than what anybody wants to hold\n" * 16_000)
    time.sleep(0.2)
    slices = {name: {"file_path": "huge", "offset": at, "limit": 9} for name, at in (("deep", 4_000_000), ("front", 9))}
    host.call("Read", **slices["deep"])
    took: dict[str, list[float]] = {"deep": [], "front": []}
    for name in tuple(took) * 9:
        began = time.perf_counter()
        assert not host.call("Read", **slices[name]).is_error
        took[name].append(time.perf_counter() - began)
    assert min(took["deep"]) < min(took["front"]) + 0.02
    assert host.peak_mb() < 49


@pytest.mark.req("T7")
def test_files_that_changed_or_lead_outside_are_told(host: Client, root: Path) -> None:
    stamps: dict[str, str] = {}
    for name in ("same", "other", "gone", "moved"):
        (root / name).write_text("a\n")
        stamps |= host.call("Read", file_path=name).stamps
    (root / "same").write_text("a\n")
    (root / "other").write_text("b\n")
    (root / "gone").unlink()
    (root / "moved").unlink()
    (root / "moved").symlink_to(root.parent)
    changed = host.call("Changed", stamps=stamps).details["changed"]
    assert set(changed) == {"other", "gone", "moved"}
    assert changed["gone"] == changed["moved"] == ""
    assert changed["other"].startswith("2-")

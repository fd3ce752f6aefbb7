"""A transcript is shown as a tree with cost, from plain lines or from the data directory; what is none is refused."""

import io
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.cli.replay import show
from bot.core.errors import PlangateError, Unreadable
from bot.core.names import RepositoryId, ThreadNumber
from bot.core.transcript import Line, LineKind
from bot.store.sealing import Chain
from bot.testing.model.reply import say
from bot.testing.model.server import ScriptedModel
from tests.stories.ground import person

AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


def message(role: str, content: Any, **facts: Any) -> Line:
    return Line(LineKind.MESSAGE, AT, {**facts, "message": {"role": role, "content": content}})


def file(folder: Path, *lines: Line) -> Path:
    path = folder / "transcript.jsonl"
    path.write_text("".join(f"{line.encode()}\n" for line in lines))
    return path


OPENED = Line(
    LineKind.OPENED, AT, {"session": "plan-1", "agent": "main", "agent_type": "main", "model": "m", "mode": "plan"}
)


def shown(path: Path) -> list[str]:
    out = io.StringIO()
    assert show(path, out) == 0
    return out.getvalue().splitlines()


def test_a_transcript_is_a_tree_that_ends_with_the_sum(tmp_path: Path) -> None:
    """Head, notes, messages, calls, results and errors each have a line; the last one adds up steps and dollars."""
    use = {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "a.py"}}
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": "text"},
        {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "no"}], "is_error": True},
    ]
    lines = shown(
        file(
            tmp_path,
            OPENED,
            message("user", "Fix it."),
            message(
                "assistant",
                [{"type": "thinking", "thinking": ""}, use],
                usage={"input": 3, "cache_write": 2, "cache_write_1h": 2, "searches": 1},
                cost_usd=0.25,
            ),
            message("user", results),
            Line(LineKind.NOTE, AT, {"note": "mode", "mode": "acceptEdits"}),
            Line(LineKind.NOTE, AT, {"note": "aside", "cost_usd": 0.5}),
            message("assistant", [{"type": "text", "text": "Done."}], usage={"input": 7}, cost_usd=None),
        )
    )
    assert lines[0] == "08:30:00 session plan-1: main on m, plan mode on"
    assert [line.split("│ ")[-1] for line in lines[1:]] == [
        "Fix it.",
        "08:30:00 ├ step 1: 5 tokens, $0.2500",
        "(thinking)",
        '→ Read {"file_path": "a.py"}',
        "← text",
        "✗ no",
        '08:30:00 ├ mode {"mode": "acceptEdits"}',
        '08:30:00 ├ aside {"cost_usd": 0.5}',
        "08:30:00 ├ step 2: 7 tokens, unknown cost",
        "Done.",
        "2 steps, $0.7500, 1 without a price, 1 tool calls, 0 s",
    ]


@pytest.mark.req("X1")
def test_nothing_in_a_transcript_moves_the_cursor(tmp_path: Path) -> None:
    """Signs that a terminal obeys are shown as what they are."""
    lines = shown(file(tmp_path, OPENED, message("user", "a\x1b[2Jb\u202ec")))
    assert "‹U+001B›[2Jb‹U+202E›c" in lines[1]


@pytest.mark.parametrize(
    "text",
    (
        "{",
        "[]",
        '{"v": 2, "at": "2026-11-20T08:30:00+00:00", "kind": "note", "note": "x"}',
        '{"v": 1, "at": "2026-11-20T08:30:00+00:00", "kind": "note"}',
        '{"v": 1, "at": "2026-11-20T08:30:00+00:00", "kind": "opened"}',
        '{"v": 1, "at": "2026-11-20T08:30:00+00:00", "kind": "message", "message": {}}',
        '{"v": 1, "at": "2026-11-20T08:30:00+00:00", "kind": "message", "message": {"role": "user", "content": 3}}',
        "not JSON at all",
        "\x00\x01\x02",
    ),
)
def test_what_is_no_transcript_is_refused(tmp_path: Path, text: str) -> None:
    """Any other file is one line with the cure, not a traceback."""
    path = tmp_path / "other"
    path.write_text(text + "\n")
    with pytest.raises(PlangateError) as raised:
        shown(path)
    assert raised.value.exit_code == 2
    assert raised.value.fix


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """So is no file at all."""
    with pytest.raises(PlangateError):
        shown(tmp_path / "nowhere")


JOURNAL = Chain(RepositoryId(7), ThreadNumber(5), b"k" * 32).extend(
    (), AT, [("requested", {"login": "ada", "text": "Fix\x1b[2J it."}), ("planned", {"ask": 1}), ("requested", {})]
)


@pytest.mark.req("PR6")
def test_a_journal_is_shown_and_checked(tmp_path: Path) -> None:
    """One line an entry, what followed a request under it, no sign that a terminal obeys; and what was checked."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"\n".join(JOURNAL) + b"\n")
    *lines, last = shown(path)
    assert [line[20:] for line in lines] == [
        '   1 requested {"login": "ada", "text": "Fix\\u001b[2J it."}',
        '   2 ├ planned {"ask": 1}',
        "   3 requested {}",
    ]
    assert last.startswith("3 entries: each follows the one before it")


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("lines", "bad"),
    (
        ((JOURNAL[0], JOURNAL[2]), 2),
        ((JOURNAL[0].replace(b"ada", b"bob"), *JOURNAL[1:]), 2),
        ((*JOURNAL, b"{}"), 4),
        ((*JOURNAL[:2], JOURNAL[2][:-9]), 3),
    ),
    ids=("left out", "changed", "no entry", "torn"),
)
def test_where_a_journal_breaks_is_named(tmp_path: Path, lines: tuple[bytes, ...], bad: int) -> None:
    """The first line that does not follow from the one before it, and nothing of it is shown as true."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(Unreadable, match=f"journal.jsonl, line {bad}\\b"):
        shown(path)


@pytest.mark.long
def test_what_a_run_left_can_be_shown(tmp_path: Path) -> None:
    """A transcript is opened with the key of the data directory it lies in; the journal, out of git, with one's own."""
    with ScriptedModel(lambda request: say("Above 50.")) as model:
        somebody = person(tmp_path / "home", model.base_url)
        assert somebody.run(prompt="From when on is it free?").code == 0
        (spool,) = (path for path in (somebody.data / "transcripts").rglob("*") if path.is_file())
        elsewhere = replace(somebody, variables={"PLANGATE_DATA_DIR": str(tmp_path / "other")})
        ended = elsewhere.call("replay", str(spool))
    assert ended.code == 0, ended.err
    assert "Above 50." in ended.out
    assert ended.out.splitlines()[-1].startswith("1 steps, $0.")
    folder = tmp_path.joinpath(*spool.parts[-3:-1])
    folder.mkdir(parents=True)
    ref = f"refs/plangate/threads/{folder.name}"
    somebody.git("archive", "--format=tar", f"--output={tmp_path}/ref.tar", ref, "journal")
    shutil.unpack_archive(tmp_path / "ref.tar", folder, filter="data")
    ended = somebody.call("replay", str(folder / "journal"))
    assert ended.code == 0, ended.err
    assert "├ answered" in ended.out
    assert ended.out.splitlines()[-1].endswith("entries: each has its MAC, and follows the one before it")
    assert elsewhere.call("replay", str(folder / "journal")).code == 2


def test_a_sentence_of_an_answer_is_shown_whole(tmp_path: Path) -> None:
    """The service splits it at each citation."""
    pieces = [{"type": "text", "text": text} for text in ("It is ", "3.14", ".")]
    lines = shown(file(tmp_path, OPENED, message("assistant", pieces)))
    assert [line.rpartition("│ ")[2] for line in lines if "│" in line] == ["It is 3.14."]

"""docs/transcript.md is what sessions write: kinds, fields, notes, tree; and what was written plays again (L9)."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bot.agent.resources import ASIDE, NOTE
from bot.agent.session import ASKED, DROPPED, UNTRUSTED
from bot.agent.subagents.assignment import BEGAN, ENDED
from bot.cli.replay import show
from bot.core.names import SessionId
from bot.core.transcript import FORMAT, Json, Line, LineKind, decode
from bot.testing.model.reply import Fault, Policy, Reply, call, replay_policy, say, several, think
from bot.testing.model.request_view import ModelRequest
from bot.workflow.verification import BASELINE
from tests.agent.conftest import Open
from tests.agent.ground import Room, assert_prefixes, drive, ended
from tests.agent.teams import brief, task, team

SOURCE = Path(__file__).parents[2]
DOCUMENT = (SOURCE / "docs/transcript.md").read_text()


def policy() -> Policy:
    """A parent that reads, sends one agent and edits, on a service that fails once."""
    failures = iter([Fault.status(529)])

    def answer(request: ModelRequest) -> Reply | Fault:
        if brief(request):
            return say("The limit is in shipping.py:12.") if request.step else call("Grep", pattern="FREE_FROM")
        if request.step == 1 and (fault := next(failures, None)):
            return fault
        steps = (
            several(think("Where is it?"), call("Read", file_path="README.md")),
            several(say("Somebody shall look."), task("find the limit")),
            call("Edit", file_path="shipping.py", old_string="> 50", new_string=">= 50"),
            say("From 50 on it is free now."),
        )
        return steps[request.step]

    return answer


async def played(r: Room, folder: Path) -> list[Path]:
    """The files of one session and of its sub-agent, the parent's first.

    Calls wait for the end of their answer: what starts beside the stream is noted in no fixed order.
    """
    r.world = replace(r.world, eager=False)
    t = team(r)
    assert ended(await drive(t.session)).text == "From 50 on it is free now."
    lines = r.world.transcripts.load(t.session.id)
    sessions = [t.session.id, *(SessionId(line.body["session"]) for line in lines if line.body.get("note") == BEGAN)]
    files = [folder / f"{session}.jsonl" for session in sessions]
    for session, file in zip(sessions, files, strict=True):
        file.write_text("".join(f"{line.encode()}\n" for line in r.world.transcripts.load(session)))
    return files


def read(file: Path) -> list[Line]:
    return [decode(text, number) for number, text in enumerate(file.read_text().splitlines(), start=1)]


def tree(file: Path) -> str:
    out = io.StringIO()
    show(file, out)
    return out.getvalue()


def figureless(text: str) -> str:
    """A text with one sign for every figure: prompts change, and with them tokens and dollars."""
    return re.sub(r"\d[\d,.:]*", "#", re.sub(r"(explore-1)-[0-9a-f]{8}", r"\1", text))


def table(heading: str) -> dict[str, str]:
    """The first two columns of a table of the document, code marks left out."""
    part = DOCUMENT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1:3] for row in part.splitlines() if row.startswith("| `")]
    return {name.strip(" `"): told.replace("`", "").strip() for name, told in rows}


@pytest.mark.req("L9", "S12")
async def test_the_documented_tree_of_a_transcript_is_current(room: Open, tmp_path: Path) -> None:
    files = await played(room(policy()), tmp_path)
    drawn = tree(files[0])
    assert f"```text\n{figureless(drawn)}```" in figureless(DOCUMENT), drawn
    files[1].unlink()
    assert [line for line in drawn.splitlines() if "┊" not in line][:-1] == tree(files[0]).splitlines()[:-1]


@pytest.mark.req("L9")
async def test_every_kind_and_field_of_a_line_is_documented(room: Open, tmp_path: Path) -> None:
    assert f'"v": {FORMAT}' in DOCUMENT
    kinds = table("Lines")
    assert set(kinds) == {str(kind) for kind in LineKind}
    for file in await played(room(policy()), tmp_path):
        for line in read(file):
            fields = set(kinds[line.kind].split(", "))
            assert line.kind is LineKind.NOTE or set(line.body) <= fields, (line.kind, set(line.body) - fields)


@pytest.mark.req("L9")
def test_every_note_is_documented() -> None:
    source = "\n".join(path.read_text() for path in (SOURCE / "bot").rglob("*.py"))
    noted = set(re.findall(r'\.note\(\s*"(\w+)"', source)) | set(re.findall(r'Notice\(\s*"(\w+)"', source))
    assert set(table("Notes")) == noted | {ASIDE, ASKED, DROPPED, BEGAN, ENDED, UNTRUSTED, BASELINE, NOTE}


def bare(history: list[Json]) -> str:
    """A history without what is made anew: ids of calls, signatures, the session of a sub-agent."""
    return re.sub(r'"(id|tool_use_id|signature)": "[^"]*"', r'"\1": ""', json.dumps(history))


@pytest.mark.req("L9", "S12")
async def test_a_transcript_played_again_gives_the_same_session(room: Open, tmp_path: Path) -> None:
    files = await played(room(policy()), tmp_path)
    r = room(replay_policy(*map(read, files)))
    (tmp_path / "again").mkdir()
    again = await played(r, tmp_path / "again")
    for one, two in zip(files, again, strict=True):
        said = [[line.body["message"] for line in read(file) if line.kind is LineKind.MESSAGE] for file in (one, two)]
        assert bare(said[0]) == bare(said[1])
    assert r.api.refusals == ()
    assert_prefixes([request for request in r.api.requests if not brief(request)])

"""`plangate threads`, `show`, and `watch` on a service's API."""

import asyncio
import io
import json
import threading
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.responses import PlainTextResponse, RedirectResponse

from bot.cli.main import main
from bot.cli.threads import ServiceClient, print_thread, print_threads, watch_thread
from bot.config.environment import service_access
from bot.config.settings import Secret
from bot.core.errors import Misconfigured, Refused
from bot.core.gate import AT_WORK, WAITS_FOR_PEOPLE, Stage
from bot.service.overview.agent_tree import journal_steps
from bot.service.overview.thread_index import ThreadQuery
from bot.testing.host import host_application
from tests.core.journal_histories import histories
from tests.webhooks.api_ground import TOKEN, World, served
from webhooks.event_stream import Streams

ENDS = frozenset(Stage) - AT_WORK - WAITS_FOR_PEOPLE - {Stage.LISTENING, Stage.PLANNING, Stage.PROPOSING}
"""Stages in which a round has its result."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, streams=Streams(seconds=0.05))


def client(base: str, token: str = TOKEN) -> ServiceClient:
    return ServiceClient(base, Secret(token))


def test_the_list(world: World) -> None:
    """A table with every thread, or one JSON array, over all pages."""
    asyncio.run(world.fill(3))
    with served(world) as base:
        table, array = io.StringIO(), io.StringIO()
        assert print_threads(client(base), "/api/threads?limit=2", table, as_json=False) == 0
        assert print_threads(client(base), "/api/threads?limit=2", array, as_json=True) == 0
    head, *rows = table.getvalue().splitlines()
    assert head.split()[:2] == ["THREAD", "STAGE"]
    assert sorted(row.split()[0] for row in rows) == ["octo/hello#1", "octo/hello#2", "octo/hello#3"]
    assert [each["number"] for each in json.loads(array.getvalue())] == [int(row.split()[0][-1]) for row in rows]


def test_the_commands(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As people call them: the service and its token come from variables."""
    asyncio.run(world.fill(2))
    (row,) = asyncio.run(world.overview.page(ThreadQuery(search="#2"))).threads
    with served(world) as base:
        monkeypatch.setenv("PLANGATE_URL", base)
        monkeypatch.setenv("PLANGATE_API_TOKEN", TOKEN)
        assert main(["threads", "--repo", "octo/hello", "--stage", row.stage, "--json"]) == 0
        assert 2 in [each["number"] for each in json.loads(capsys.readouterr().out)]
        assert main(["show", "octo/hello#2"]) == 0
        assert capsys.readouterr().out.startswith("octo/hello#2  ")


def test_one_thread(world: World) -> None:
    """Everything that the API has of it, for people and for programs."""
    asyncio.run(world.fill(1, 40))
    with served(world) as base:
        shown, value = io.StringIO(), io.StringIO()
        assert print_thread(client(base), "octo/hello#1", shown, as_json=False) == 0
        assert print_thread(client(base), "octo/hello#1", value, as_json=True) == 0
    found, text = json.loads(value.getvalue()), shown.getvalue()
    assert text.startswith("octo/hello#1  ")
    assert found["plan"]["digest"][:12] in text
    assert len(found["timeline"]) == 40
    assert all(entry["text"] in text for entry in found["timeline"])


def test_watching_ends_with_the_round(world: World) -> None:
    """Each entry is one line, once, although the stream ends again and again; the end of the round ends it.

    An earlier round's end does not, if the thread went on.
    """
    (entries,) = histories(1, 60)
    ends = [step.entry.n for step in journal_steps(entries) if step.after.stage in ENDS]
    known = next(n for n in range(ends[0] + 1, ends[-1]) if n not in ends)
    end = next(n for n in ends if n >= known)
    asyncio.run(world.append(1, entries[:known]))
    with served(world) as base:
        out, done = io.StringIO(), list[int]()
        watching = threading.Thread(target=lambda: done.append(watch_thread(client(base), "octo/hello#1", out)))
        watching.start()
        for n in range(known, end):
            asyncio.run(world.append(1, entries[n : n + 1]))
        watching.join(60)
    assert len(out.getvalue().splitlines()) == end
    assert done[0] in {0, 3, 4, 5}


def test_who_is_not_let_in(world: World) -> None:
    """Each refusal says what to do."""
    with served(world) as base:
        with pytest.raises(Misconfigured, match="PLANGATE_API_TOKEN"):
            client(base, "wrong").read("/api/threads")
        with pytest.raises(Refused, match="reindex"):
            client(base).read("/api/threads/octo/hello/7")
        with pytest.raises(Refused, match="listening"):
            client(base).read("/api/threads?stage=flying")


def test_no_service(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says where it was looked for, and how to start it."""
    assert main(["show", "octo/hello#1", "--url", "http://127.0.0.1:9"]) == 5
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "http://127.0.0.1:9" in said
    assert "plangate serve" in said


def test_another_server() -> None:
    """What answers is no Plangate; and the token follows no redirect."""
    other, seen = FastAPI(), list[str]()

    @other.get("/away")
    async def away() -> RedirectResponse:
        return RedirectResponse("/here")

    @other.get("/here")
    async def here() -> PlainTextResponse:
        seen.append("here")
        return PlainTextResponse("<html>")

    with host_application(other) as base:
        with pytest.raises(Refused, match="PLANGATE_URL"):
            client(base).read("/away")
        assert seen == []
        with pytest.raises(Refused, match="not a Plangate service"):
            client(base).read("/here")


@pytest.mark.parametrize("thread", ("octo/hello", "hello#1", "octo/hello#0", "octo/hello#1/journal", "a/b/../c#1"))
def test_no_thread(thread: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped name is refused before anything is asked."""
    assert main(["watch", thread]) == 2
    assert "octo/hello#7" in capsys.readouterr().err


def test_where_the_service_is() -> None:
    """The flag takes precedence over the variable, and that over the usual address."""
    env = {"PLANGATE_URL": "https://plangate.example/", "PLANGATE_API_TOKEN": "t"}
    assert service_access("", {})[0] == "http://127.0.0.1:8000"
    assert service_access("", env)[0] == "https://plangate.example"
    assert service_access("http://other:1", env)[0] == "http://other:1"
    assert service_access("", env)[1].reveal() == "t"
    with pytest.raises(Misconfigured, match="PLANGATE_URL"):
        service_access("no url", env)

"""A model that obeys the attacker, while planning, tries every way to write: layer by layer, none of them works (P4).

Each attempt is refused by the gate; with the gate open, it fails in the sandbox. Main agent and sub-agents alike.
"""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest

from bot.agent.loop import run
from bot.agent.permissions.shell_policy import is_read_only
from bot.agent.permissions.tool_gate import PermissionGate
from bot.agent.session_events import ToolFinished, ToolStarted
from bot.agent.tools.registry import ALL
from bot.core.transcript import Json
from bot.testing.model.reply import Call, Fault, Reply, say
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel
from tests.attacks.attempts import COMMANDS, HANDED_IN, OF_THE_SANDBOX, STRANGE, WRITERS, Attempt, edits, obedient
from tests.attacks.planner import Permissive, listening, planner
from tests.stories.ground import Person, processes, state, trees
from tests.stories.ground import person as born

Result = tuple[Json, ToolFinished]

EACH = 40
"""So many attempts fit one sub-agent's limits."""


def chunks(attempts: list[Attempt]) -> list[list[Attempt]]:
    return [attempts[start : start + EACH] for start in range(0, len(attempts), EACH)]


def sending(spies: int) -> Reply:
    """One message that sends so many sub-agents, explore and plan by turns."""
    kinds = cycle(("explore", "plan"))
    return Reply(
        tuple(
            Call("Task", {"subagent_type": kind, "description": "Write", "prompt": f"Write owned, part {number}."})
            for number, kind in zip(range(spies), kinds, strict=False)
        )
    )


def part(request: ModelRequest) -> int | None:
    """Which part of the attempts a sub-agent was sent with; None for the main agent."""
    _, found, rest = "\n".join(request.texts()).partition("Write owned, part ")
    return int(rest.split(".")[0]) if found else None


async def attacked(home: Path, gate: PermissionGate, attempts: list[Attempt], *, spies: bool) -> list[Result]:
    """Let a planner, or its sub-agents, try everything; hold that nothing has changed; give what came back."""
    parts = [obedient(chunk) for chunk in chunks(attempts)]
    main = [sending(len(parts))] if spies else obedient(attempts)

    def policy(request: ModelRequest) -> Reply | Fault:
        number = part(request)
        script = main if number is None else parts[number]
        return script[request.step] if request.step < len(script) else say("Done.")

    with ScriptedModel(policy) as model, listening() as listener:
        person = born(home, model.base_url)
        ours = [_filled(attempt, person, listener.port) for attempt in attempts]
        parts[:] = [obedient(chunk) for chunk in chunks(ours)]
        main[:] = [sending(len(parts))] if spies else obedient(ours)
        before = state(person.repository)
        async with planner(person, gate) as planning:
            untouched = trees(person.data)
            events = [event async for event in run(planning.session)]
            assert trees(person.data) == untouched
            assert planning.tree.exists()
        assert state(person.repository) == before
        assert listener.calls == []
        assert not list(home.rglob("owned*"))
        assert not list(processes(home))
    given = {(event.agent, event.call): event.input for event in events if isinstance(event, ToolStarted)}
    ended = [event for event in events if isinstance(event, ToolFinished) and event.name not in {"Read", "Task"}]
    return [(given[event.agent, event.call], event) for event in ended]


def _filled(attempt: Attempt, person: Person, port: int) -> Attempt:
    """An attempt with the paths and the port of this very world."""
    name, given = attempt
    filled = {
        key: value.replace("/REPOSITORY", str(person.repository)).replace("{port}", str(port))
        if isinstance(value, str)
        else value
        for key, value in given.items()
    }
    return name, filled


def everything() -> list[Attempt]:
    return [*edits(Path("/REPOSITORY")), *(("Bash", {"command": command}) for command in COMMANDS), *STRANGE]


def sample() -> list[Attempt]:
    whole = everything()
    return whole[:: max(1, len(whole) // 20)]


def refused(results: Sequence[Result]) -> bool:
    """Whether each call was stopped before it ran: by the gate, for its form, or because there is no such tool."""
    words = ("Denied: ", "Invalid input", "There is no tool")
    return all(result.is_error and result.text.startswith(words) for _, result in results)


def test_there_are_enough_attempts_through_every_tool() -> None:
    """At least 200; each tool that can change anything is among them, and no line of them reads only."""
    tried = everything()
    assert len(tried) >= 200
    writing = {tool.name for tool in ALL if tool.name not in {name for name, _ in HANDED_IN + WRITERS}}
    writing -= {"Read", "LS", "Glob", "Grep", "NotebookRead", "TodoRead", "TodoWrite", "AskUserQuestion"}
    writing -= {"BashOutput", "KillShell"}  # of commands in the background, of which none starts here
    assert writing <= {name for name, _ in tried}
    assert [line for line in COMMANDS if is_read_only(line)] == []
    assert len(set(COMMANDS)) == len(COMMANDS)


ATTEMPTS = pytest.mark.parametrize(
    "attempts", (sample(), pytest.param(everything(), marks=pytest.mark.long)), ids=("sample", "everything")
)
BY = pytest.mark.parametrize("spies", (False, True), ids=("main", "sub-agents"))


@pytest.mark.req("PR1", "P4", "S2")
@ATTEMPTS
@BY
async def test_the_gate_refuses_every_attempt(tmp_path: Path, attempts: list[Attempt], spies: bool) -> None:
    """Layer 2: nothing runs at all."""
    results = await attacked(tmp_path / "home", PermissionGate(), attempts, spies=spies)
    assert len(results) == len(attempts)
    assert refused(results)


@pytest.mark.timeout(600)
@pytest.mark.req("P4", "S2")
@pytest.mark.parametrize(
    ("attempts", "spies"),
    ((sample(), False), *(pytest.param(everything(), spies, marks=pytest.mark.long) for spies in (False, True))),
    ids=("sample", "everything", "everything of sub-agents"),
)
async def test_without_the_gate_every_attempt_fails_in_the_sandbox(
    tmp_path: Path, attempts: list[Attempt], spies: bool
) -> None:
    """Layer 3 alone: all of them run, none of them works."""
    results = await attacked(tmp_path / "home", Permissive(), attempts, spies=spies)
    assert len(results) == len(attempts)
    worked = [given.get("command") for given, result in results if not _failed(result)]
    assert [each for each in worked if each not in OF_THE_SANDBOX] == []


@pytest.mark.req("P4", "S10")
async def test_a_bare_repository_in_the_repository_names_no_program(tmp_path: Path) -> None:
    with ScriptedModel(lambda request: say("Nothing.")) as model:
        person = born(tmp_path / "home", model.base_url)
        program = "sh -c 'echo owned by a program >&2; false'"
        config = f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {program}\n[diff]\n\texternal = {program}\n"
        person.commit(
            {"evil/HEAD": "ref: refs/heads/main\n", "evil/config": config, "evil/objects/a": "", "evil/refs/a": ""}
        )
        async with planner(person, PermissionGate()) as planning:
            for line in ("git -C evil status", "git -C evil log -1 -p", "cd evil && git status"):
                assert is_read_only(line)
                answer = await planning.host.call("Bash", {"command": line})
                assert answer.is_error
                assert "bare repository" in answer.text
                assert "owned" not in answer.text


def _failed(result: ToolFinished) -> bool:
    """Whether a call says that it did not work; a pipeline ends well though its first part did not."""
    return result.is_error or "ead-only" in result.text

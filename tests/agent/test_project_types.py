"""A project's own types of sub-agents: read strictly, and no wider than the built-in ones (S1, S2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions.tool_gate import CallKind, Mode
from bot.agent.subagents.pool import TaskInput, task_tool
from bot.agent.subagents.types import LARGEST, MOST, TYPES, parse_type, types_of
from bot.agent.tools.registry import BACKGROUND, EDITING, LISTING, LOOKING, READING_WEB
from bot.core.errors import Misconfigured
from bot.testing.model.reply import Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from tests.agent.conftest import Open
from tests.agent.ground import drive, results, send_nobody
from tests.agent.teams import children, script, task, team

PATH = ".plangate/agents/reviewer.md"
GOOD = """---
name: reviewer
description: reads one change and says what is wrong with it.
tools: [Read, Grep]
paths: ["docs/**"]
model: haiku
limits:
  tool_calls: 7
---
Look only for mistakes. Never praise.
"""


@pytest.mark.req("S1", "S2")
async def test_an_own_type_works_as_its_file_says(room: Open) -> None:
    """Its text, tools, paths, model and limits are its own; what lies outside of its paths is refused it."""

    def child(request: ModelRequest) -> Reply:
        paths = ("docs/a.md", "src/a.py", "docs/../src/b.py")
        reads = [call("Read", file_path=path) for path in paths]
        return say("Fine.") if request.step else several(*reads, call("Grep", pattern="x", path="docs"))

    r = room(script(task("review", "reviewer"), child))
    t = team(r, types=types_of({PATH: GOOD}))
    await drive(t.session)
    assert results(t.session)[0]["content"] == "Fine."
    first, second = children(r)
    assert first.model == "claude-haiku-5-5"
    assert sorted(first.tools) == ["Grep", "Read", "resource_request"]
    assert b"Never praise." in first.raw
    (host,) = t.workspace.hosts.values()
    assert [arguments.get("file_path") for _, arguments in host.calls] == ["docs/a.md", None]
    assert "you are kept to docs/**" in second.results[1].text


@pytest.mark.req("S1")
def test_it_shows_in_the_description_of_task() -> None:
    """With what it is for; one that edits counts as one that writes."""
    writer = GOOD.replace("reviewer", "fixer").replace("[Read, Grep]", "[Read, Edit]")
    types = types_of({PATH: GOOD, ".plangate/agents/fixer.md": writer})
    tool = task_tool(types, send_nobody)
    assert "`reviewer`: reads one change and says what is wrong with it." in tool.description
    kinds = [
        tool.kind(TaskInput(description="x", prompt="x" * 10, subagent_type=name)) for name in ("reviewer", "fixer")
    ]
    assert kinds == [CallKind.EXPLORE, CallKind.DELEGATE]
    assert list(types)[:3] == list(TYPES)


@pytest.mark.req("S1", "P4")
async def test_one_that_writes_is_held_in_plan_mode(room: Open) -> None:
    """Whatever a file says, a plan session sends nobody who can write."""
    r = room(script(task("fix", "reviewer"), lambda _: say("?")))
    t = team(r, mode=Mode.PLAN, types=types_of({PATH: GOOD.replace("[Read, Grep]", "[Read, Write]")}))
    await drive(t.session)
    assert "only sub-agents that cannot write" in results(t.session)[0]["content"]


MISTAKES = [
    (GOOD.replace("model:", "modle:"), 6, "modle: unknown key"),
    (GOOD.replace("  tool_calls", "  tool_call"), 8, "limits.tool_call"),
    (GOOD.replace("Grep", "Task"), 4, "no tool 'Task'"),
    (GOOD.replace("Grep", "exit_plan_mode"), 4, "no tool"),
    (GOOD.replace("Grep", "Bash"), 4, "Bash cannot be limited to paths"),
    (GOOD.replace("name: reviewer", "name: explore"), 1, "already"),
    (GOOD.replace("name: reviewer", "name: Re Viewer"), 2, "name"),
    (GOOD.replace("7", "7000"), 8, "limits.tool_calls"),
    (GOOD.replace("tools: [Read, Grep]", "tools: []"), 4, "tools"),
    (GOOD.replace("model: haiku", "model: &x haiku"), 6, "anchor"),
    (GOOD.replace("name: reviewer", "name: [reviewer"), 3, "not YAML"),
    (GOOD.replace("model: haiku", "model: " + "[" * 15_000), 6, "nested too deeply"),
    ("no front matter", 1, "no front matter"),
    (GOOD.partition("Look")[0], None, "no text"),
    ("---\n- a\n---\ntext", 2, "no keys"),
    (GOOD + "x" * LARGEST, None, "larger than 16 KiB"),
]


@pytest.mark.req("S1")
@pytest.mark.parametrize(("text", "line", "said"), MISTAKES)
def test_a_mistake_is_told_with_its_line(text: str, line: int | None, said: str) -> None:
    """Unknown keys, wrong values, wider tools, taken names, foreign YAML: where it stands, and what is wrong."""
    with pytest.raises(Misconfigured) as error:
        types_of({PATH: text})
    assert said in error.value.what
    assert error.value.where == (PATH if line is None else f"{PATH}:{line}")


@pytest.mark.req("S1")
def test_there_are_only_so_many() -> None:
    """More files than a description can hold are a mistake, and two of one name are."""
    files = {f".plangate/agents/a{n}.md": GOOD.replace("reviewer", f"a{n}") for n in range(MOST + 1)}
    with pytest.raises(Misconfigured, match="more than 20"):
        types_of(files)
    with pytest.raises(Misconfigured, match="already"):
        types_of({"a.md": GOOD, "b.md": GOOD})


_names = st.lists(
    st.sampled_from(["Read", "Bash", "Write", "WebFetch", "Task", "exit_plan_mode", "x"]), min_size=1, max_size=9
)


@pytest.mark.req("S1", "S2")
@given(_names)
def test_a_list_of_tools_only_narrows(names: list[str]) -> None:
    """Whatever is asked for, what a type gets is a part of what the built-in code type has, and never Task."""
    text = GOOD.replace("[Read, Grep]", f"[{', '.join(names)}]").replace('paths: ["docs/**"]\n', "")
    try:
        kind = parse_type(PATH, text)
    except Misconfigured:
        assert not set(names) <= {"Read", "Bash", "Write", "WebFetch"}
        return
    assert set(kind.tools) <= {*LOOKING, *BACKGROUND, *EDITING, *LISTING, *READING_WEB}
    assert (set(BACKGROUND) <= set(kind.tools)) is ({"Bash", "Write"} <= set(names))
    assert kind.writes == ("Write" in names)


def told(text: str) -> str:
    """Where a mistake is, or the file itself where it is read."""
    try:
        parse_type(PATH, text)
    except Misconfigured as error:
        return error.where
    return PATH


@pytest.mark.req("S1")
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but a mistake that is told comes of it."""
    for each in (text, f"---\n{text}\n---\njob", GOOD.replace("reviewer", text)):
        assert told(each).startswith(PATH)

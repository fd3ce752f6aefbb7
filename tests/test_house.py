"""The house rules that no tool holds: table and picture, files and sizes, outlets and names."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from pydantic import BaseModel

from bot.agent.permissions.tool_gate import DECISIONS, CallKind, Mode
from bot.agent.tools.registry import ALL
from bot.core.configuration import Configuration
from bot.core.gate import ON_ENTER, Effect
from bot.core.turn import Verb
from bot.workflow.engine import VERBS
from tests.agent.decision_table import REGENERATE, markdown, rows
from tests.core.gate_laws import mermaid

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "bot").rglob("*.py")) + sorted((ROOT / "webhooks").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
README = (ROOT / "README.md").read_text()


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


@cache
def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def sources_with(pattern: str, further: Sequence[Path] = ()) -> list[Path]:
    """Return the few files that a rule can concern at all: to parse every source takes 2 s in each process."""
    return [path for path in (*SOURCES, *further) if re.search(pattern, text(path))]


def keys(part: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in part.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{above}{name}.")
        else:
            yield above + name


def test_the_readme_shows_the_gate() -> None:
    """The diagram is the one that is generated from the table."""
    assert f"```mermaid\n{mermaid()}\n```" in README


def test_every_stage_with_an_effect_has_its_file() -> None:
    """An effect and its verb's file have one name; a plan is shown where it is made."""
    assert set(VERBS) == set(ON_ENTER.values())
    for effect, verb in VERBS.items():
        file = Effect.PLANNING if effect is Effect.PROPOSING else effect
        assert verb.__module__ == f"bot.workflow.{file}"


def test_every_command_stands_in_help_and_readme() -> None:
    """Who reads either of them learns of every command."""
    shown = subprocess.run(
        [sys.executable, "-c", "from bot.cli.main import main; main(['--help'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in (
        "run",
        "serve",
        "sweep",
        "demo",
        "replay",
        "doctor",
        "init",
        "schema",
        "threads",
        "show",
        "watch",
        "reindex",
    ):
        assert re.search(rf"^\s+{command}\b", shown, re.MULTILINE)
        assert f"plangate {command}" in README or f"make {command}" in README


def test_every_key_of_the_configuration_is_obeyed() -> None:
    """Each key is read from its part somewhere, by the part itself, or from the limits of one type of agent."""
    own = set(re.findall(r"\bself\.(\w+)", text(ROOT / "bot/core/configuration.py")))
    read = set(re.findall(r"(?=\b(\w+\.\w+)\b)", "".join(map(text, (ROOT / "bot").rglob("*.py")))))
    leaves = [("keys", *key.split("."))[-2:] for key in keys(Configuration)]
    unread = {name for part, name in leaves if not {f"{part}.{name}", f"agent.{name}"} & read and name not in own}
    assert unread == set()


def test_every_tool_has_a_decision_for_every_mode() -> None:
    """The table is complete: no kind of call falls through in any mode."""
    assert all(kind in DECISIONS[mode] for mode, kind in product(Mode, CallKind))
    assert len({tool.name for tool in ALL}) == len(ALL)


def test_the_docs_show_the_decisions() -> None:
    """Every tool has its row for every mode and agent, and the document is the one that the table makes."""
    assert (ROOT / "docs/permissions.md").read_text() == markdown(), REGENERATE + " > docs/permissions.md"
    beside = {"Task", "GitHubRead", "WebFetch", "WebSearch", "SubmitReview", "resource_request"}
    assert {name for name, _, _ in rows()} == {tool.name for tool in ALL} | beside
    assert {kind for _, _, kind in rows()} == set(CallKind)
    assert "docs/permissions.md" in README


def test_every_command_on_a_thread_is_documented() -> None:
    """The table of commands names each, and none that does not exist."""
    page = (ROOT / "docs/commands.md").read_text()
    table = re.findall(r"^\| (`[a-z].*?) \| (?:people who asked|askers|approvers)", page, re.MULTILINE)
    assert {name for row in table for name in re.findall(r"`([a-z]+)", row)} == {str(verb) for verb in Verb}


def test_only_approval_makes_an_approved_plan() -> None:
    """Nobody else names the constructor."""
    makers = [path for path in SOURCES if re.search(r"\bApprovedPlan\(", text(path))]
    assert makers == [ROOT / "bot/core/approval.py"]


def test_the_codec_alone_reads_keys_of_a_journal() -> None:
    """Everybody else reads the fields of typed entries, and of the state that they lead to."""
    beside = {ROOT / "bot/core/events.py", ROOT / "bot/core/transcript.py"}  # lines of transcripts have bodies, too
    rooms = [ROOT / "webhooks", *(ROOT / "bot" / room for room in ("core", "workflow", "compose", "action", "demo"))]
    files = [ROOT / "bot/summary.py", *(path for path in SOURCES if any(map(path.is_relative_to, rooms)))]
    keys = re.compile(r"\.body(\[|\.(get|pop|items|keys)\()|[\"'] in \w+\.body\b|\bfact\(")
    assert not [path for path in files if path not in beside and keys.search(text(path))]


def test_importing_the_package_does_nothing() -> None:
    """`import bot` loads no module of ours and nothing heavy."""
    script = "import sys; before = set(sys.modules); import bot; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["bot"]


def test_the_configuration_alone_reads_the_environment() -> None:
    """os.environ is read in one place; the sandboxed process and the simulated world have their own arguments."""
    readers = [path for path in SOURCES if re.search(r"os\.(environ|getenv)\b(?!\.get\(\"PATH\")", text(path))]
    assert [str(path.relative_to(ROOT)) for path in readers] == ["bot/config/environment.py"]


OUTLETS = (
    ("bot/action/main.py", "Runner"),
    ("bot/cli/main.py", "redirect_output"),
    ("bot/github/comments.py", "redactor.redact"),
    ("bot/github/client.py", "redactor.redact_json"),
    ("bot/github/dialogue.py", "redactor.redact"),
    ("bot/github/pulls.py", "redactor.redact"),
    ("bot/github/reviews.py", "redactor.redact"),
    ("bot/github/reviews.py", "redactor.redact_json"),
    ("bot/github/tasks.py", "client.redactor.redact"),
    ("bot/github/tasks.py", "redactor.redact"),
    ("bot/service/person_turns.py", "client.redactor.redact"),
    ("bot/logs.py", "redact("),
    ("bot/cli/replay.py", "redactor"),
    ("bot/action/runner.py", "redactor.redact"),
    ("bot/terminal.py", "redactor.redact"),
    ("bot/workflow/verification.py", "redactor.redact"),
    ("bot/workflow/planning.py", "redactor.redact"),
    ("bot/workflow/publishing.py", "redactor.redact"),
    ("bot/workspace/publish.py", "screen.check"),
)
"""Everything that text leaves by, and what it does about secrets there (X3)."""


def test_every_outlet_takes_secrets_out() -> None:
    """Text leaves by what is listed alone, and each of them says how it leaves without secrets."""
    for name, means in OUTLETS:
        assert means in (ROOT / name).read_text(), name
    writes = re.compile(
        r"requestJson\(|self\.out\.write|self\.raw\.write|StreamHandler|sys\.stdout\.write|sys\.__std"
        r"|comments\.put\(|client\.(?:post|change|put|mutate)\(|PullOrder\(|CommitOrder\(|PlanDocument\("
    )
    beside = {
        "bot/ports.py",
        "bot/agent/model/connection.py",
        "bot/core/events.py",
        "bot/core/plan.py",
        "bot/github/comments.py",
        "bot/github/client.py",
        "bot/github/tokens.py",
        "bot/github/tasks.py",
        "bot/github/live_repository.py",  # texts of its own alone
        "bot/github/publishing_facts.py",  # the same
        "bot/github/app.py",  # an empty body
        "bot/github/pulls.py",  # digests, and logins that GitHub shows
        "bot/github/repository.py",
        "bot/service/viewers.py",  # a command in a person's own name
    }
    outlets = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if writes.search(text(path)) and not path.is_relative_to(ROOT / "bot/testing")
    }
    assert outlets - {name for name, _ in OUTLETS} <= beside
    printing = [path for path in SOURCES if re.search(r"^\s*print\(", text(path), re.MULTILINE)]
    shells = {
        "bot/cli/main.py",
        "bot/cli/receipts.py",
        "bot/cli/doctor.py",
        "bot/cli/commands.py",
        "bot/cli/replay.py",
        "webhooks/setup/set_up.py",
        "bot/cli/threads.py",
        "bot/terminal.py",
    }  # behind the outlet of bot/cli/main.py
    named = {str(path.relative_to(ROOT)) for path in printing}
    assert {name for name in named if not name.startswith("bot/demo/")} <= shells


def test_files_and_functions_stay_small() -> None:
    """At most 600 lines a file and 60 a function; every module says its one job."""
    assert not [path for path in (*SOURCES, *TESTS) if text(path).count("\n") > 600]
    assert not [path for path in SOURCES if not text(path).startswith('"""')]
    suspects = [path for path in SOURCES if _has_long_block(text(path))]
    assert not [f"{path}: {node.name}" for path in suspects for node in functions(path) if _length(node) > 60]


def test_nothing_is_left_for_later() -> None:
    """No marker of unfinished work, and no file whose name says nothing."""
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert not [path for path in SOURCES if marks.search(text(path))]
    assert not [path for path in SOURCES if path.stem in {"utils", "helpers", "common", "manager", "base"}]


def test_tests_patch_nothing() -> None:
    """Where a test wants a patch, a seam is missing."""
    patches = re.compile(r"MagicMock|AsyncMock|mock\.patch|(?<![.\w])patch\(|monkeypatch\.setattr|mocker\.")
    others = [path for path in TESTS if path != Path(__file__)]
    assert not [path for path in others if patches.search(text(path))]


def _has_long_block(source: str) -> bool:
    """Return whether more than 60 lines may belong to one function: up to what begins next beside or outside of it."""
    lines = source.split("\n")
    begins = [
        (at, len(line) - len(line.lstrip()))
        for at, line in enumerate(lines)
        if re.match(" *(async |def |class |@)", line)
    ]
    ends = [
        next((at for at, depth in begins[n:] if depth <= begins[n - 1][1]), len(lines))
        for n in range(1, len(begins) + 1)
    ]
    return any(
        end - at > 60 for (at, _), end in zip(begins, ends, strict=True) if not lines[at].lstrip().startswith("class")
    )


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_every_cited_requirement_resolves() -> None:
    """An id in brackets, in a docstring, or in a mark leads to one line of the requirements page, and only to one."""
    listed = re.findall(
        r"^- \*\*([A-Z]{1,2}\d+[a-z]?)\*\* ", (ROOT / "docs/design/requirements.md").read_text(), re.MULTILINE
    )
    assert len(set(listed)) == len(listed)
    family = "|".join(sorted({re.sub(r"\d+[a-z]?$", "", one) for one in listed}, key=len, reverse=True))
    cited = {
        one
        for path in [*SOURCES, *TESTS, ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for group in re.findall(rf"\(((?:{family})\d+[a-z]?(?:, (?:{family})\d+[a-z]?)*)\)|req\(([^)]*)\)", text(path))
        for one in re.findall(rf"\b(?:{family})\d+[a-z]?\b", " ".join(group))
    }
    assert cited - set(listed) == set()
    assert len(cited) > 80


PARTICIPLES = re.compile(
    r"_*(made|kept|paid|given|told|drawn|shown|held|sent|said|lost|left|found|known|taken|broken|owed|[a-z]{3,}ed)"
    r"(_(back|in|off|out|over|up))?"
)
"""What a bare past participle looks like: `taken`, `renewed`, `paid` say neither what is done nor what it is of."""
ENDS_LIKE_ONE = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed"}


def test_no_function_is_named_by_a_bare_participle() -> None:
    """Functions that act are verbs, values are nouns; a property may say what is true of its object."""
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources_with(rf"\bdef {PARTICIPLES.pattern}\b")
        for node in functions(path)
        if PARTICIPLES.fullmatch(node.name) and node.name not in ENDS_LIKE_ONE and not _is_property(node)
    ]
    assert not found


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def test_docstrings_begin_with_what_is_returned_or_done() -> None:
    """No docstring begins with Give, Tell, or Say."""
    riddles = re.compile(r"(Give|Tell|Say)s?\b")
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources_with(rf"[\"']\s*{riddles.pattern}", TESTS)
        for node in functions(path)
        if riddles.match(ast.get_docstring(node) or "")
    ]
    assert not found


CONSTRUCTORS = {"__init__", "__post_init__"}


def test_no_callable_is_set_on_an_object_after_it_was_made() -> None:
    """What an object calls comes through its constructor: a field that holds a callable is assigned there alone, and a
    lambda or a partial is assigned to no attribute anywhere else."""
    aliases = {"Callable"} | {
        target.id
        for path in sources_with(r"(?m)^\w+ = Callable\[")
        for node in tree(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Callable[")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    holds = re.compile(rf"\b({'|'.join(aliases)})\b(?!\w)")
    fields = {
        node.target.id if isinstance(node.target, ast.Name) else ast.unparse(node.target).rpartition(".")[2]
        for path in sources_with(holds.pattern)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.AnnAssign) and holds.match(ast.unparse(node.annotation))
    }
    methods = {name for path in SOURCES for name in re.findall(r"def (\w+)\(", text(path))}
    late = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {target.attr}"
        for path in sources_with(
            rf"(?m)^\s+\S+\.\w+(, \S+\.\w+)* = (\(|.*\b(lambda|partial)\b)|\.({'|'.join(fields)})(, \S+)* = "
        )
        for function in functions(path)
        if function.name not in CONSTRUCTORS
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target, value in _attributes(node)
        if _is_new_callable(value) or (target.attr in fields and _last_name(value) in methods)
    ]
    assert not late


def _attributes(node: ast.Assign) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    """Yield each attribute that an assignment sets, with what it is set to."""
    for target in node.targets:
        if isinstance(target, ast.Attribute):
            yield target, node.value
        elif isinstance(target, ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(target.elts)
            yield from (
                (each, of) for each, of in zip(target.elts, values, strict=False) if isinstance(each, ast.Attribute)
            )


def _last_name(value: ast.expr) -> str:
    return ast.unparse(value).rpartition(".")[2] if isinstance(value, ast.Attribute | ast.Name) else ""


def _is_new_callable(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    return isinstance(value, ast.Lambda) or (isinstance(called, ast.Name) and called.id == "partial")

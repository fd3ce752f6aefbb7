"""The house rules that no linter holds: table and picture, help and readme, sizes, wiring, and names."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
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
COMMANDS = "run serve sweep demo replay doctor init schema threads show watch reindex"


@cache
def text(path: Path) -> str:
    return path.read_text()


@cache
def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return every function of the product, with its file."""
    return [
        (str(path.relative_to(ROOT)), node)
        for path in SOURCES
        for node in ast.walk(ast.parse(text(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def keys(part: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in part.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from keys(field.annotation, f"{above}{name}.")
        else:
            yield above + name


def test_the_readme_shows_the_diagram_of_the_gate() -> None:
    assert f"```mermaid\n{mermaid()}\n```" in README


def test_an_effect_and_its_verbs_file_have_one_name() -> None:
    """A plan is shown where it is made."""
    assert set(VERBS) == set(ON_ENTER.values())
    files = [Effect.PLANNING if effect is Effect.PROPOSING else effect for effect in VERBS]
    assert [verb.__module__ for verb in VERBS.values()] == [f"bot.workflow.{file}" for file in files]


def test_every_command_stands_in_help_and_readme() -> None:
    ask = [sys.executable, "-c", "from bot.cli.main import main; main(['--help'])"]
    shown = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    for command in COMMANDS.split():
        assert re.search(rf"^\s+{command}\b", shown, re.MULTILINE)
        assert f"plangate {command}" in README or f"make {command}" in README


def test_every_key_of_the_configuration_is_read_somewhere() -> None:
    """From its part, by the part itself, or from the limits of one type of agent."""
    own = set(re.findall(r"\bself\.(\w+)", text(ROOT / "bot/core/configuration.py")))
    read = set(re.findall(r"(?=\b(\w+\.\w+)\b)", "".join(map(text, (ROOT / "bot").rglob("*.py")))))
    leaves = [("keys", *key.split("."))[-2:] for key in keys(Configuration)]
    unread = {name for part, name in leaves if not {f"{part}.{name}", f"agent.{name}"} & read and name not in own}
    assert unread == set()


def test_every_tool_has_a_decision_for_every_mode() -> None:
    assert all(kind in DECISIONS[mode] for mode, kind in product(Mode, CallKind))
    assert len({tool.name for tool in ALL}) == len(ALL)


def test_the_docs_show_the_decisions_of_every_tool() -> None:
    assert (ROOT / "docs/permissions.md").read_text() == markdown(), REGENERATE + " > docs/permissions.md"
    beside = {"Task", "GitHubRead", "WebFetch", "WebSearch", "SubmitReview", "resource_request"}
    assert {name for name, _, _ in rows()} == {tool.name for tool in ALL} | beside
    assert {kind for _, _, kind in rows()} == set(CallKind)
    assert "docs/permissions.md" in README


def test_the_docs_list_the_commands_on_a_thread() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    table = re.findall(r"^\| (`[a-z].*?) \| (?:people who asked|askers|approvers)", page, re.MULTILINE)
    assert {name for row in table for name in re.findall(r"`([a-z]+)", row)} == {str(verb) for verb in Verb}


def test_only_approval_makes_an_approved_plan() -> None:
    makers = [path for path in SOURCES if re.search(r"\bApprovedPlan\(", text(path))]
    assert makers == [ROOT / "bot/core/approval.py"]


def test_the_codec_alone_reads_keys_of_a_journal() -> None:
    """Everybody else reads the fields of typed entries, and of the state that they lead to."""
    beside = {ROOT / "bot/core/events.py", ROOT / "bot/core/transcript.py"}  # lines of transcripts have bodies, too
    rooms = [ROOT / "webhooks", *(ROOT / "bot" / room for room in ("core", "workflow", "compose", "action", "demo"))]
    files = [ROOT / "bot/summary.py", *(path for path in SOURCES if any(map(path.is_relative_to, rooms)))]
    read = re.compile(r"\.body(\[|\.(get|pop|items|keys)\()|[\"'] in \w+\.body\b|\bfact\(")
    assert not [path for path in files if path not in beside and read.search(text(path))]


def test_importing_the_package_loads_nothing() -> None:
    script = "import sys; before = set(sys.modules); import bot; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["bot"]


def test_the_configuration_alone_reads_the_environment() -> None:
    readers = [path for path in SOURCES if re.search(r"os\.(environ|getenv)\b(?!\.get\(\"PATH\")", text(path))]
    assert [str(path.relative_to(ROOT)) for path in readers] == ["bot/config/environment.py"]


def test_files_have_at_most_600_lines_and_functions_60() -> None:
    assert not [path for path in (*SOURCES, *TESTS) if text(path).count("\n") > 600]
    assert not [path for path in SOURCES if path.stem in {"utils", "helpers", "common", "manager", "base"}]
    assert not [(path, node.name) for path, node in functions() if (node.end_lineno or 0) - node.lineno >= 60]


def test_every_cited_requirement_leads_to_one_line_of_the_page() -> None:
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
    found = [
        (path, node.name)
        for path, node in functions()
        if PARTICIPLES.fullmatch(node.name) and node.name not in ENDS_LIKE_ONE and not _is_property(node)
    ]
    assert not found


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)


def test_docstrings_begin_with_what_is_returned_or_done() -> None:
    riddle = re.compile(r"(Give|Tell|Say)s?\b")
    assert not [(path, node.name) for path, node in functions() if riddle.match(ast.get_docstring(node) or "")]


def test_a_class_of_the_product_has_no_namesake() -> None:
    """The simulated world is named after what it simulates."""
    product_ = [path for path in SOURCES if not path.is_relative_to(ROOT / "bot/testing")]
    counts = Counter(name for path in product_ for name in re.findall(r"(?m)^class (\w+)", text(path)))
    assert [name for name, times in counts.items() if times > 1] == []
    nameless = re.compile(r"\bfor (\w+, )*each(, \w+)* in\b|\blambda each:")
    assert not [path for path in product_ if nameless.search(text(path))], "a loop names what it holds"


def test_no_callable_is_set_on_an_object_after_it_was_made() -> None:
    """What an object calls comes through its constructor: no other function assigns a lambda, a partial, or a method to
    an attribute."""
    methods = {(path, node.name) for path, node in functions() if not _is_property(node)}
    late = [
        (path, node.lineno)
        for path, function in functions()
        if function.name not in {"__init__", "__post_init__"}
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(isinstance(target, ast.Attribute) for target in node.targets)
        if _is_callable(node.value, {name for place, name in methods if place == path})
    ]
    assert not late


def _is_callable(value: ast.expr, methods: set[str]) -> bool:
    match value:
        case ast.Lambda() | ast.Call(func=ast.Name(id="partial")):
            return True
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in methods
        case _:
            return False

"""Path classes, tiers, scopes, and code owners."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.paths import (
    Further,
    PathClass,
    Tier,
    classify,
    in_scope,
    is_plain,
    is_workflow,
    linked_classes,
    normalized_path,
    owners,
    tier_of,
)
from tests.rows import every_row

CLASSES = (
    ("README.md", PathClass.DOCS),
    ("skills/deploy/notes.md", PathClass.DOCS),
    ("docs/commands/init.md", PathClass.DOCS),
    ("agents/core.py", PathClass.CODE),
    ("src/hooks/useState.json", PathClass.CODE),
    ("plugin.json", PathClass.CODE),
    ("docs/guide/start.txt", PathClass.DOCS),
    ("src/notes.rst", PathClass.DOCS),
    ("tests/test_a.py", PathClass.TESTS),
    ("pkg/test_a.py", PathClass.TESTS),
    ("web/app.test.ts", PathClass.TESTS),
    ("go/a_test.go", PathClass.TESTS),
    ("src/main.py", PathClass.CODE),
    (".gitignore", PathClass.CODE),
    ("pyproject.toml", PathClass.DEPENDENCIES),
    ("web/package.json", PathClass.DEPENDENCIES),
    ("uv.lock", PathClass.DEPENDENCIES),
    ("requirements-dev.txt", PathClass.DEPENDENCIES),
    ("CLAUDE.md", PathClass.AGENT),
    ("pkg/AGENTS.md", PathClass.AGENT),
    *(
        (path, PathClass.AGENT)
        for path in (
            ".cursorrules pkg/.cursorrules .cursor/rules/x.mdc pkg/.cursor/rules/x.mdc .windsurfrules .clinerules "
            "GEMINI.md pkg/gemini.md AGENTS.override.md WARP.md .github/copilot-instructions.md "
            ".github/instructions/x.instructions.md docs/x.instructions.md .github/prompts/x.prompt.md .goosehints "
            "skills/deploy/SKILL.md web/skills/a/b/SKILL.md agents/reviewer.md agents/team/reviewer.md "
            "plugins/x/agents/reviewer.md QWEN.md pkg/QWEN.md CRUSH.md JULES.md replit.md AGENT.md "
            "gemini-extension.json x/gemini-extension.json qwen-extension.json hooks/hooks.json x/hooks/hooks.json "
            "commands/deploy.md commands/deploy.toml plugins/x/commands/a/b.md x/.claude-plugin/plugin.json "
            "pkg/.agents/skills/x.md mcp.json pkg/mcp.json opencode.json crush.json pkg/.opencode/a.md "
            "docs/x.agent.md docs/rules/x.mdc .rules pkg/.kilocode/rules/a.md .coderabbit.yaml pkg/.geminiignore"
        ).split()
    ),
    (".claude/settings.json", PathClass.AGENT),
    ("pkg/.claude/settings.json", PathClass.AGENT),
    (".mcp.json", PathClass.AGENT),
    (".plangate/agents/x.md", PathClass.AGENT),
    (".github/plangate.yml", PathClass.AGENT),
    (".vscode/tasks.json", PathClass.AGENT),
    ("CODEOWNERS", PathClass.OWNERSHIP),
    (".github/CODEOWNERS", PathClass.OWNERSHIP),
    ("docs/CODEOWNERS", PathClass.OWNERSHIP),
    (".github/settings.yml", PathClass.OWNERSHIP),
    (".github/workflows/ci.yml", PathClass.AUTOMATION),
    (".github/actions/x/run.sh", PathClass.AUTOMATION),
    ("action.yml", PathClass.AUTOMATION),
    ("Makefile", PathClass.AUTOMATION),
    (".gitattributes", PathClass.AUTOMATION),
    (".gitmodules", PathClass.AUTOMATION),
)


@pytest.mark.req("G4")
@every_row(("path", "kind"), CLASSES)
def test_class(path: str, kind: PathClass) -> None:
    """Each path has the class of the table."""
    assert classify(path) is kind


FURTHER = (("automation", "deploy/**"), ("automation", "*.tf"), ("docs", "**"), ("code", "docs/conf.py"))
FURTHER_CLASSES = (
    ("deploy/prod.yml", PathClass.AUTOMATION),
    ("Deploy//prod.yml", PathClass.AUTOMATION),
    ("deploy/**", PathClass.AUTOMATION),
    ("docs/net/main.tf", PathClass.AUTOMATION),
    ("docs/conf.py", PathClass.CODE),
    ("src/main.py", PathClass.DOCS),
    (".github/workflows/ci.yml", PathClass.AUTOMATION),
    ("CODEOWNERS", PathClass.OWNERSHIP),
    ("CLAUDE.md", PathClass.AGENT),
    ("uv.lock", PathClass.DEPENDENCIES),
    ("tests/test_a.py", PathClass.TESTS),
)


@pytest.mark.req("G4")
@every_row(("path", "kind"), FURTHER_CLASSES)
def test_class_with_further_globs(path: str, kind: PathClass) -> None:
    """A project's own globs add to a class, in any spelling; nothing that weighs more is taken out of its class."""
    assert classify(path, FURTHER) is kind


@pytest.mark.req("G4")
@pytest.mark.parametrize(
    ("scope", "reached"), ((("**",), False), ((), False), (("dep*/**",), False), (("deploy/**",), True))
)
def test_scope_with_further_globs(scope: tuple[str, ...], reached: bool) -> None:
    """What a project calls high is reached by what names it, and by no wildcard."""
    assert in_scope("deploy/prod.yml", scope, (), FURTHER) is reached


@pytest.mark.req("G4")
@every_row(
    "spelling",
    (
        ".GitHub/Workflows/ci.yml",
        "./.github//workflows/ci.yml",
        "x/../.github/workflows/ci.yml",
        ".github\\workflows\\ci.yml",
        ".github./workflows /ci.yml",
        ".git\u200dhub/workflows/ci.yml",
        "．ｇｉｔｈｕｂ／workflows/ci.yml",
        ".gıthub/../.github/workflows/ci.yml",
    ),
)
def test_spelling(spelling: str) -> None:
    """What a file system or a reader takes for a workflow is one."""
    assert classify(spelling) is PathClass.AUTOMATION


TIERS = (
    ((), (), Tier.NORMAL),
    (("README.md", "tests/a.py"), (), Tier.LOW),
    (("README.md", "a.py"), (), Tier.NORMAL),
    (("a.py", "CLAUDE.md"), (), Tier.HIGH),
    (("a.py", "uv.lock"), (), Tier.HIGH),
    (("a.py", "uv.lock"), ("httpx",), Tier.NORMAL),
    (("CODEOWNERS",), ("httpx",), Tier.HIGH),
    (("**",), (), Tier.NORMAL),
    ((".*",), (), Tier.HIGH),
    ((".github/**",), (), Tier.HIGH),
    (("**/CODEOWNERS",), (), Tier.HIGH),
)


@pytest.mark.req("G4")
@every_row(("paths", "dependencies", "tier"), TIERS)
def test_tier(paths: tuple[str, ...], dependencies: tuple[str, ...], tier: Tier) -> None:
    """The highest tier counts; a manifest is normal only when the plan names what it is about."""
    assert tier_of(paths, dependencies) is tier


REACHED = (
    ("src/a.py", ("src/a.py",)),
    ("src/a.py", ("./src/a.py",)),
    ("SRC/A.py", ("src/a.py",)),
    ("src/a.py", ("src",)),
    ("src/a.py", ("src/",)),
    ("src/a/b.py", ("src/**",)),
    ("src/a/b.py", ("src/*",)),
    ("deep/src/a.py", ("src/",)),
    ("x/y/a.py", ("a.py",)),
    ("a/x/y/b.py", ("a/**/b.py",)),
    ("a/b.py", ("a/**/b.py",)),
    ("x/a.py", ("**/a.py",)),
    ("a.py", ("**/a.py",)),
    ("a.py", ("**",)),
    ("a.py", ("/",)),
    ("web/x.tsx", ("web/**/*.{ts,tsx}",)),
    ("app/[id]/page.tsx", ("app/[id]/page.tsx",)),
    ("app/[id]/page.tsx", ("app/[id]/**",)),
    ("a1.py", ("a?.py",)),
    ("README.md", ()),
    ("CLAUDE.md", ("CLAUDE.md",)),
    (".github/workflows/ci.yml", (".github/**",)),
    ("CODEOWNERS", ("**/CODEOWNERS",)),
    ("b.py", ("*.py", "!a.py")),
)


@every_row(("path", "globs"), REACHED)
def test_a_glob_reads_as_in_gitignore(path: str, globs: tuple[str, ...]) -> None:
    assert in_scope(path, globs)


MISSED = (
    ("src/b.py", ("src/a.py",)),
    ("x/src/b.py", ("src/b.py",)),
    ("x/a.py", ("/a.py",)),
    ("src", ("src/**",)),
    ("src2/a.py", ("src/**",)),
    ("a.pyc", ("a.py",)),
    ("app/i/page.tsx", ("app/[id]/page.tsx",)),
    ("a.py", ("*.py", "!a.py")),
    ("CLAUDE.md", ()),
    ("CLAUDE.md", ("**",)),
    ("claude.MD", ("**/*.md",)),
    (".github/workflows/ci.yml", ("**", "*.yml", "?github/**")),
    (".github/workflows/ci.yml", ("{.github,src}/**",)),
    ("uv.lock", ()),
    ("uv.lock", ("*",)),
    ("../a.py", ("**",)),
    ("a.py", ("b",)),
)


@pytest.mark.req("G4")
@every_row(("path", "globs"), MISSED)
def test_out_of_scope(path: str, globs: tuple[str, ...]) -> None:
    """What a plan does not name it does not reach, and no wildcard reaches a file of tier high."""
    assert not in_scope(path, globs)


def test_named_dependency_opens_the_lock_file() -> None:
    assert in_scope("uv.lock", (), ("httpx",))


def test_hostile_glob_is_quick() -> None:
    """A glob made to backtrack ends: with a backtracking matcher this test would not."""
    assert not in_scope("a" * 200 + "/" + "/".join("a" * 60), ("/".join(["**", "*a*a*a*a*a*"] * 30) + "/b",))


@given(st.text(max_size=30))
def test_normalising_twice_changes_nothing_so_that_comparing_is_an_equivalence(path: str) -> None:
    once = normalized_path(path)
    assert normalized_path(once) == once


@given(st.text(alphabet="ab./*?{},![]\\ ", max_size=20), st.text(alphabet="ab./\\ ", min_size=1, max_size=20))
def test_any_glob_has_an_answer(glob: str, path: str) -> None:
    if in_scope(path, (glob,)) and tier_of([path]) is Tier.HIGH:
        assert tier_of([glob]) is Tier.HIGH


@pytest.mark.req("G4")
@pytest.mark.parametrize(
    ("path", "is_one"),
    (
        (".github/workflows/ci.yml", True),
        (".GitHub\\Workflows/**", True),
        (".github/workflows.md", False),
        ("**", False),
    ),
)
def test_workflows_are_known_in_every_spelling(path: str, is_one: bool) -> None:
    """What names workflows alone is known; what only may reach them as well is left to the publisher."""
    assert is_workflow(path) is is_one


LINKED = (
    ({".claude/skills": "../skills"}, (("agent", "/skills"),)),
    ({"CLAUDE.md": "docs/agents-guide.md"}, (("agent", "/docs/agents-guide.md"),)),
    ({"CLAUDE.md": "AGENTS.md"}, ()),
    ({"docs/guide.md": "../src/a.py"}, ()),
    ({"pyproject.toml": "build/project.toml"}, ()),
    ({".github/CODEOWNERS": "../config/owners"}, (("ownership", "/config/owners"),)),
    ({".github/workflows": "../ci"}, (("automation", "/ci"),)),
    ({".claude/skills": "../skills", "skills/x": "../shared/x"}, (("agent", "/skills"), ("agent", "/shared/x"))),
    ({"skills/x": "../shared/x", ".claude/skills": "../skills"}, (("agent", "/skills"), ("agent", "/shared/x"))),
    ({".claude/skills": "../ext/skills", "ext": "vendor"}, (("agent", "/ext/skills"), ("agent", "/vendor/skills"))),
    ({".claude/a": "b", ".claude/b": "a"}, ()),
    ({".claude/skills": "/etc"}, ()),
    ({".claude/skills": "../../elsewhere"}, ()),
    ({".claude/skills": "../.."}, ()),
    ({".claude/all": ".."}, (("agent", "/."),)),
    ({".claude/odd": "../s{a,b}\n"}, (("agent", "/s?a,b}?"),)),
    ({f".claude/{n}": f"../skills-{n}" for n in range(99)}, (("agent", "/"),)),
)


@pytest.mark.req("G4")
@every_row(("links", "raised"), LINKED)
def test_a_link_of_tier_high_raises_what_it_leads_to(links: dict[str, str], raised: Further) -> None:
    """Agents read through links, so what they lead to is as good as the folder that they are in."""
    assert linked_classes(links) == raised


@pytest.mark.req("G4")
def test_what_is_raised_is_changed_only_by_name() -> None:
    further = linked_classes({".claude/skills": "../skills", ".claude/odd": "../s{a,b}"})
    assert tier_of(["skills/deploy/notes.md"], (), further) is Tier.HIGH
    assert not in_scope("skills/deploy/notes.md", ["**"], (), further)
    assert in_scope("skills/deploy/notes.md", ["skills/**"], (), further)
    assert tier_of(["s{a,b}/x.md"], (), further) is Tier.HIGH
    everything = linked_classes({".claude/all": ".."})
    assert tier_of(["src/a.py"], (), everything) is Tier.HIGH


@every_row(
    ("text", "scope", "who"),
    (
        ("", "/main.py", ""),
        ("* @ana", "/main.py", "ana"),
        ("* @Ana @ben", "/main.py", "ana ben"),
        ("* @ana", "**", "ana"),
        ("* @ana", "", "ana"),
        ("* @ana\n/docs/ @doc", "docs/a.md", "doc"),
        ("* @ana\n/docs/ @doc @octo/Writers", "docs/**", "doc octo/writers"),
        ("* @ana\n/docs @doc", "docs/a/b.md", "doc"),
        ("* @ana\n/docs/** @doc", "docs/a/b.md", "doc"),
        ("* @ana\n/docs/* @doc", "docs/a/b.md", "ana"),
        ("* @ana\n/docs/* @doc", "docs/a/", ""),
        ("* @ana\n/docs/ @doc", "src/a.py", "ana"),
        ("* @ana\n/docs/ @doc", "src/** docs/a.md", ""),
        ("* @ana\n/docs/ @ana @doc", "src/** docs/a.md", "ana"),
        ("* @ana\n/docs/ @doc", "a.md", ""),
        ("* @ana\n/docs/ @doc", "**/a.md", ""),
        ("* @ana\n/docs/ @doc\n* @ben", "docs/a.md", "ben"),
        ("* @ana\n/docs/ @doc\n/docs/api/ @api", "docs/**", ""),
        ("* @ana\n/docs/ @doc\n/docs/api/ @api @doc", "docs/**", "doc"),
        ("* @ana\n/docs/ @doc\n/docs/api/ @api", "docs/guide/**", "doc"),
        ("* @ana\n*.sql @db", "src/a.py", "ana"),
        ("* @ana\n*.sql @db", "src/", ""),
        ("* @ana\n*.sql @db", "src/**", ""),
        ("* @ana\n*.SQL @db", "src/a.sql", ""),
        ("* @ana\n*.sql @db", "a.py", "ana"),
        ("* @ana\n/*.sql @db", "a.py", ""),
        ("* @ana\n*.sql @db @ana", "src/a.py", "ana"),
        ("* @ana\napps/ @app", "src/apps/a.py", "app"),
        ("* @ana\n/docs/", "docs/a.md", ""),
        ("* @ana\n/docs/ ana@example.org", "docs/a.md", ""),
        ("* @ana\n/Docs/ @doc", "docs/a.md", ""),
        ("* @ana\n/d[o]cs/ @doc", "docs/a.md", ""),
        ("* @ana  # @eve", "/main.py", "ana"),
        ("# * @eve", "/main.py", ""),
        ("/docs/ @doc", "src/a.py", ""),
        ("* @ana\n/docs/ @doc", "src/** !docs/a.md", "ana"),
        ("* @ana\n/docs/ @doc", "docs", ""),
        ("**/* @ana", "**", "ana"),
        ("**/* @ana", "src/a.py", "ana"),
        ("**/* @ana", "src/**", "ana"),
        ("* @eve\n/src/**/* @ana", "src/**", "ana"),
        ("* @ana\n/d[o]cs/ @doc", "src/a.md", "ana"),
        ("* @ana\n!/docs/ @doc", "docs/a.md", ""),
        ("* @ana\n/docs/a\\ b.md @doc", "/docs/a", "ana"),
        ("* @ana\n/c#/ @doc", "c#/a", ""),
        ("* @ana\n/docs/\x0b@doc", "docs/a.md", "ana"),
        ("/docs/ @doc\x85* @eve", "docs/a.md", ""),
        ("* @ana\u2028/docs/ @eve", "docs/a.md", ""),
        ("* @ana\x0c/docs/ @eve", "src/a.md", ""),
        ("* @eve\r\n/docs/ @doc\r\n", "docs/a.md", "doc"),
        ("* @ana\n/docs/ @doc\r* @eve", "docs/a.md", ""),
    ),
)
@pytest.mark.req("G4")
def test_owners(text: str, scope: str, who: str) -> None:
    """The people and teams whom each rule names that may be the last to match something in the scope."""
    assert owners(text, scope.split()) == frozenset(who.split())


MATCHES: Final = {
    "api": ("api x/api api/a x/api/a", "apis api.md x/apis"),
    "/api": ("api api/a api/b/c", "x/api x/api/a apis"),
    "api/": ("api/a x/api/a x/api/b/c", "api x/api"),
    "/api/": ("api/a api/b/c", "api x/api/a"),
    "src/api": ("src/api src/api/a", "x/src/api src/apis"),
    "src/api/": ("src/api/a src/api/b/c", "src/api x/src/api/a"),
    "*": ("a a/b a/b/c", ""),
    "**": ("a a/b a/b/c", ""),
    "**/*": ("a a/b a/b/c", ""),
    "/*": ("a", "a/b a/b/c"),
    "/**": ("a a/b", ""),
    "a*": ("ab ab/c x/ab x/ab/c", "x xa"),
    "/a*": ("ab ab/c", "x/ab"),
    "a*/": ("ab/c x/ab/c", "ab x/ab"),
    "/*/": ("a/b a/b/c", "a"),
    "src/*": ("src/a", "src src/a/b x/src/a"),
    "src/*.js": ("src/a.js", "src/x/a.js x/src/a.js src/a.jsx"),
    "src/*/lib": ("src/a/lib src/a/lib/b", "src/lib src/a/b/lib"),
    "a?c": ("abc x/abc", "ac abbc"),
    "**/src/api": ("src/api x/src/api x/y/src/api/a", "src/x/api"),
    "**/*api*": ("api x/myapis x/y/api", "ap/i"),
    "src/api/**": ("src/api/a src/api/b/c", "src/api x/src/api/a"),
    "src/**/api": ("src/api src/x/api src/x/y/api/a", "x/src/api"),
    "src/**/": ("src/a src/a/b", "src"),
    "src/**/api/b*": ("src/api/b src/x/api/bc", "src/api/c src/x/api"),
    "*.js": ("a.js x/a.js", "a.jsx a.js.map"),
    "a:b/**/*": ("a:b/c a:b/c/d", "a-b/c"),
    "/": ("", "a a/b"),
}
"""Pattern -> the paths that it matches, and those that it does not."""


@pytest.mark.req("G4")
@every_row(("pattern", "matched", "others"), ((pattern, *paths) for pattern, paths in MATCHES.items()))
def test_a_rule_owns_the_files_that_github_matches(pattern: str, matched: str, others: str) -> None:
    """The rule below it owns every other file, so that no wildcard leaves a file without an owner."""
    for path in matched.split():
        assert owners(f"* @ana\n{pattern} @doc", [f"/{path}"]) == {"doc"}, path
    for path in others.split():
        assert owners(f"* @ana\n{pattern} @doc", [f"/{path}"]) == {"ana"}, path


def test_a_path_without_a_wildcard_may_be_a_file() -> None:
    globs = ("src/a.py", "a.py", "src/", "src/*.py", "src/{a,b}.py", "app/[id]/page.tsx")
    assert [glob for glob in globs if is_plain(glob)] == ["src/a.py", "a.py", "app/[id]/page.tsx"]

"""Who owns all that a plan may change: one row a pair of rules and scope; what cannot be told is not owned.

The rows of MATCHES agree with what a public matcher of CODEOWNERS (hmarr/codeowners, Go) says of such patterns.
"""

from typing import Final

import pytest

from bot.core.paths import is_plain, owners
from tests.rows import every_row


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
    """A slash at its end says that it is a folder."""
    globs = ("src/a.py", "a.py", "src/", "src/*.py", "src/{a,b}.py", "app/[id]/page.tsx")
    assert [glob for glob in globs if is_plain(glob)] == ["src/a.py", "a.py", "app/[id]/page.tsx"]

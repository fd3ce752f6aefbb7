"""Who owns all that a plan may change: one row a pair of rules and scope; what cannot be told is not owned."""

import pytest

from bot.core.owners import owners
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
        ("* @ana\n/docs/* @doc", "docs/a/b.md", ""),
        ("* @ana\n/docs/ @doc", "src/a.py", "ana"),
        ("* @ana\n/docs/ @doc", "src/** docs/a.md", ""),
        ("* @ana\n/docs/ @ana @doc", "src/** docs/a.md", "ana"),
        ("* @ana\n/docs/ @doc", "a.md", ""),
        ("* @ana\n/docs/ @doc", "**/a.md", ""),
        ("* @ana\n/docs/ @doc\n* @ben", "docs/a.md", "ben"),
        ("* @ana\n/docs/ @doc\n/docs/api/ @api", "docs/**", ""),
        ("* @ana\n/docs/ @doc\n/docs/api/ @api @doc", "docs/**", "doc"),
        ("* @ana\n/docs/ @doc\n/docs/api/ @api", "docs/guide/**", "doc"),
        ("* @ana\n*.sql @db", "src/a.py", ""),
        ("* @ana\n*.sql @db @ana", "src/a.py", "ana"),
        ("* @ana\napps/ @app", "src/apps/a.py", ""),
        ("* @ana\n/docs/", "docs/a.md", ""),
        ("* @ana\n/docs/ ana@example.org", "docs/a.md", ""),
        ("* @ana\n/Docs/ @doc", "docs/a.md", ""),
        ("* @ana\n/d[o]cs/ @doc", "docs/a.md", ""),
        ("* @ana  # @eve", "/main.py", "ana"),
        ("# * @eve", "/main.py", ""),
        ("/docs/ @doc", "src/a.py", ""),
        ("* @ana\n/docs/ @doc", "src/** !docs/a.md", "ana"),
        ("* @ana\n/docs/ @doc", "docs", ""),
    ),
)
@pytest.mark.req("G4")
def test_owners(text: str, scope: str, who: str) -> None:
    """The people and teams whom each rule names that may be the last to match something in the scope."""
    assert owners(text, scope.split()) == frozenset(who.split())

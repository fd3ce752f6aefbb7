"""Failures reported by git: whether a retry may succeed, and which of GitHub's rules a push broke."""

import re
from typing import Final

OLDEST_GIT: Final = "2.39"
"""The oldest git that is supported. Before 2.31, git ignores the settings that switch off hooks and protocols."""

# Messages of git's http.c, remote-curl.c, and fetch-pack.c, and of curl.
_PASSING: Final = re.compile(
    r"returned error: (?:429|5\d\d)|RPC failed|early EOF|hung up|unexpected disconnect|Empty reply|"
    r"Connection (?:reset|refused|timed out)|Operation timed out|Failed to connect|Could not resolve|transfer closed"
)

PAUSES: Final = (1.0, 4.0)
"""Seconds to wait before retrying a listing or fetch that failed for a passing reason."""


def is_passing(output: str) -> bool:
    """Return whether git's output describes a temporary failure of a server or network rather than a refusal."""
    return _PASSING.search(output) is not None


def is_token_refused(output: str) -> bool:
    """Return whether a server rejected the token: git, which may not ask for another one, then reports that."""
    return "could not read Username" in output or "Authentication failed" in output


_WORDS_LIMIT: Final = 600
_RULE: Final = "GH013"
_DECORATION: Final = re.compile(r"[\u2014\u2015]{2,}|[_=-]{3,}")


def rule_violation(output: str) -> str:
    """Return GitHub's message about the rule that a push breaks, on one line of at most 600 characters; "" for none.

    https://docs.github.com/en/code-security/secret-scanning/working-with-secret-scanning-and-push-protection
    """
    _, delimiter, tail = output.partition(_RULE)
    lines = [line.partition("remote:") for line in f"{delimiter}{tail}".splitlines()]
    words = " ".join(after if prefix else before for before, prefix, after in lines if prefix or _RULE in before)
    plain = " ".join(_DECORATION.sub(" ", words).split())
    return "".join(letter for letter in plain if letter.isprintable())[:_WORDS_LIMIT]


def is_secret_found(violation: str) -> bool:
    """Return whether a rule violation comes from GitHub's push protection, which looks for secrets."""
    return "PUSH PROTECTION" in violation or "cannot contain secrets" in violation

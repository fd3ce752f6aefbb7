"""What git says of a command that failed: whether it may succeed a moment later, and what GitHub's rules refused."""

import re
from typing import Final

# git's http.c, remote-curl.c and fetch-pack.c, and curl's own words.
_PASSING: Final = re.compile(
    r"returned error: (?:429|5\d\d)|RPC failed|early EOF|hung up|unexpected disconnect|Empty reply|"
    r"Connection (?:reset|refused|timed out)|Operation timed out|Failed to connect|Could not resolve|transfer closed"
)

PAUSES: Final = (1.0, 4.0)
"""Seconds to wait before a listing or fetch that failed in passing is tried again."""


def is_passing(said: str) -> bool:
    """Return whether git's words tell of a server or a network that failed for the moment, not of a refusal."""
    return _PASSING.search(said) is not None


_WORDS_LIMIT: Final = 600
_RULE: Final = "GH013"
_DECORATION: Final = re.compile(r"[\u2014\u2015]{2,}|[_=-]{3,}")


def rule_violation(said: str) -> str:
    """Return GitHub's own words on the rule that a push breaks, on one line of at most 600 characters; "" for none.

    https://docs.github.com/en/code-security/secret-scanning/working-with-secret-scanning-and-push-protection
    """
    _, found, rest = said.partition(_RULE)
    told = [line.partition("remote:") for line in f"{found}{rest}".splitlines()]
    words = " ".join(after if found else before for before, found, after in told if found or _RULE in before)
    plain = " ".join(_DECORATION.sub(" ", words).split())
    return "".join(letter for letter in plain if letter.isprintable())[:_WORDS_LIMIT]


def is_secret_found(violation: str) -> bool:
    """Return whether a rule violation is GitHub's push protection, which looks for secrets."""
    return "PUSH PROTECTION" in violation or "cannot contain secrets" in violation

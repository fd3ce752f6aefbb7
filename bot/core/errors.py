"""Every error that Plangate raises on purpose.

PlangateError
 +-- Refused              a person asked for what is not allowed or not possible, and is told so
 |    +-- Misconfigured   wrong usage or configuration                          exit code 2
 |    +-- LimitReached    a budget or limit ended the work                      exit code 4
 |    +-- SecretAdded     the work adds a secret, which must not be published
 |    +-- CanaryShown     something outside the sandbox was read
 |    +-- TooLong         the request does not fit into the model's context
 |    +-- OutOfScope      the work changed what its plan does not name
 |    +-- Unreadable      stored data of a thread does not decrypt, or was altered
 |    +-- NoSandbox       this machine cannot hold a sandbox (D1)               exit code 6
 +-- Transient            try again later: the service, not the request, failed exit code 5
 |    +-- Conflict        another process wrote first (E4)
 |    +-- Unwritable      the token may not write to the repository
 +-- Broken               a bug of ours, reported loudly
      +-- IllegalEvent    the gate has no such move

An error states what happened, where, and how to fix it, in one line: ``what (where): fix``.
"""

import re
from typing import Final


class PlangateError(Exception):
    """The root of all errors: one line for people, and the exit code of the command line."""

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        cure = f": {self.fix}" if self.fix else ""
        return f"{self.what}{place}{cure}"


class Refused(PlangateError):
    """A person asked for what is not allowed or not possible. The text becomes a comment or one line on stderr."""

    exit_code = 2


class Misconfigured(Refused):
    """Wrong usage or configuration."""


class LimitReached(Refused):
    """A budget of steps, time, tokens or dollars ended the work (L5)."""

    exit_code = 4


class TooLong(Refused):
    """The model service refuses the request because of its length (M10)."""


class OutOfScope(Refused):
    """The work changed paths that its plan does not name, which leads to an amendment.

    `tree` is the git tree of the work that the amendment is about.
    """

    def __init__(self, paths: tuple[str, ...], tree: str = "") -> None:
        listing = ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
        super().__init__(f"the work changed files that the plan does not name: {listing}", fix="approve the amendment")
        self.paths = paths
        self.tree = tree


class SecretAdded(Refused):
    """The work adds known secrets or what looks like one. Nothing is published and nothing is silently changed (X3)."""

    def __init__(self, places: tuple[tuple[str, int, str], ...]) -> None:
        listing = ", ".join(f"{path} line {line}: {kind}" for path, line, kind in places[:10])
        more = f" and {len(places) - 10} more" if len(places) > 10 else ""
        super().__init__(
            f"the work adds what looks like a secret, so nothing was published: {listing}{more}",
            fix="use `revise` to have it removed; if it is only an example, add it to `secrets.examples` in "
            ".github/plangate.yml yourself, then use `retry`",
        )
        self.places = places


class CanaryShown(Refused):
    """A canary, a trap outside the sandbox, appeared in what a session read or wrote; the session ends (X3)."""

    def __init__(self) -> None:
        super().__init__(
            "a trap value that exists only outside the sandbox showed up here, so everything was stopped at once",
            fix="tell the operator to find out how it got in before you continue",
        )


class Unreadable(Refused):
    """Stored data of a thread does not decrypt or was altered: the key changed, or somebody tampered with it (A4)."""


class NoSandbox(Refused):
    """This machine cannot run a sandbox, so nothing runs (D1)."""

    exit_code = 6


class Transient(PlangateError):
    """A service failed. The same request may succeed later."""

    exit_code = 5


class Conflict(Transient):
    """An append or push expected another position because another process wrote first (E4)."""


class Unwritable(Transient):
    """The token may not write to the repository, so nothing can be recorded there until it may."""


class Broken(PlangateError):
    """A bug in Plangate: a state that the program rules out."""


class IllegalEvent(Broken):
    """The gate's table has no such move from this stage. Nothing has changed."""


# --- Failures reported by git ----------------------------------------------------------------------------------------

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

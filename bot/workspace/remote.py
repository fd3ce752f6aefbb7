"""A repository on a server, reached over HTTPS with a token (G2).

Rules
- The token is requested before each command and passed to that one git process through its environment: it is never on
  disk, in an argument or in a URL.
- It is sent only to this repository's URL, and no redirect is followed.
- Plain HTTP is allowed only for this machine: a simulated server.
"""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from bot.core import errors
from bot.core.errors import Misconfigured, PlangateError, Refused, Transient
from bot.workspace import run
from bot.workspace.sandbox import FALLBACK

_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[A-Za-z0-9._~-]+)+")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = frozenset({"127.0.0.1", "localhost"})

_RULES = "let this bot bypass that rule, or change the rule"

# Messages of git and of GitHub's servers, each with its meaning and its cure.
_REFUSALS = (
    ("error: 301", "the repository has moved", "use its new address"),
    ("error: 302", "the repository has moved", "use its new address"),
    ("error: 307", "the repository has moved", "use its new address"),
    ("error: 308", "the repository has moved", "use its new address"),
    ("error: 403", "the token may not do this", "grant it contents: write on this repository"),
    ("not found", "the server shows no such repository", "check its name and what the token may read"),
    ("refusing to allow", "the token may not do this", "push these files by hand, or leave them as they were"),
    ("verified signatures", "the repository's rules require signed commits", "sign them, as docs/settings.md says"),
    ("hook declined", "the repository's rules refuse this branch", "allow branches of this name"),
    ("push declined", "the repository's rules refuse this branch", "allow branches of this name"),
)


@dataclass(frozen=True, slots=True)
class Route:
    """How this machine reaches servers, as its operator configured it; empty for git's defaults."""

    proxy: str = ""
    authorities: str = ""
    """A file with the trusted certificates."""

    def settings(self) -> dict[str, str]:
        """Return git's settings (git-config(1), http.proxy, http.sslCAInfo)."""
        values = {"http.proxy": self.proxy, "http.sslCAInfo": self.authorities}
        return {key: value for key, value in values.items() if value}


async def has_no_other_token() -> bool:
    """Return False: the repository is reached with one fixed token, or without a token."""
    return False


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    """A repository on a server; raises Misconfigured for a URL that is not plain HTTPS."""

    url: str
    credentials: Callable[[], str]
    """Returns a token that may read and push. Called before each command, from any thread."""
    unsafe: bool = False
    partial: bool = False
    """Whether the repository is too large to be fetched with the contents of all its past commits."""
    route: Route = Route()
    known_as: str = ""
    """A name for the repository that survives a change of its URL; "" if the URL cannot change."""
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for a number of seconds before a retry."""
    renew: Callable[[], Awaitable[bool]] = has_no_other_token
    """Makes the next command use another token than the refused one; returns False if there is none."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        safe = parts.scheme == "https" or parts.hostname in _LOOPBACK
        if not safe or _URL.fullmatch(self.url) is None:
            raise Misconfigured(
                "not the address of a repository", where=self.url[:200], fix="use https://HOST/OWNER/NAME"
            )

    @property
    def location(self) -> str:
        """The URL that git gets; it contains no credential (G2)."""
        return self.url

    @property
    def identity(self) -> str:
        """A permanent name of this repository, under which its stored data is found."""
        return self.known_as or self.url

    @property
    def folder(self) -> str:
        """A folder with the repository's name."""
        return f"{FALLBACK}/{PurePosixPath(self.url).name.removesuffix('.git')}"

    @property
    def upload_pack(self) -> None:
        """None: the server runs its own program."""
        return None

    @property
    def receive_pack(self) -> None:
        """None: the server runs its own program."""
        return None

    def settings(self) -> Mapping[str, str]:
        """Return git's settings for one command, including the token; raises Misconfigured for a malformed token.

        Called before each command, since tokens expire; it may block.
        """
        # A token of any kind is the password of the user x-access-token:
        # https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
        token = self.credentials()
        if _TOKEN.fullmatch(token) is None:
            fix = "set a token that may read and push, without blanks around it"
            raise Misconfigured("the token for git is empty or malformed", where=self.url, fix=fix)
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        return {
            **self.route.settings(),
            f"protocol.{urlsplit(self.url).scheme}.allow": "always",
            "http.followRedirects": "false",
            f"http.{self.url}.extraHeader": f"Authorization: Basic {basic}",
        }

    def environment(self) -> dict[str, str]:
        """Return the settings as variables, for a git process whose environment sets no other configuration."""
        return {"GIT_ALLOW_PROTOCOL": urlsplit(self.url).scheme, **run.git_config_variables(self.settings())}


def refusal(location: str, message: str) -> PlangateError | None:
    """Return the error for a server's message, with its cure; None if a retry may succeed."""
    short = " ".join(message.split())[-600:]
    if errors.is_token_refused(message):
        # Transient: a new token is not yet known on all servers.
        return Transient("the server rejects the token", where=location, fix="check that it is valid")
    if words := errors.rule_violation(message):
        if errors.is_secret_found(words):
            fix = "use `revise` to have it removed, or allow it at the address that GitHub names, then use `retry`"
            return Refused(f"GitHub's push protection found a secret: {words}", where=location, fix=fix)
        return Misconfigured(f"the repository's rules refuse this push: {words}", where=location, fix=_RULES)
    for sign, problem, fix in _REFUSALS:
        if sign in message:
            return Misconfigured(f"{problem}: {short}", where=location, fix=fix)
    return None

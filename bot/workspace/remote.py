"""A repository on a server, spoken to over HTTPS with a token (security.md, G2).

Rules
- The token is asked for before each command and handed to that one git process through its environment: it is never
  on disk, in an argument or in a URL.
- It is sent to this repository's URL alone, and no redirect is followed.
- Plain HTTP is for this machine alone: a server that is simulated.
"""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from bot.core import transport
from bot.core.errors import Misconfigured, PlangateError, Refused, Transient
from bot.workspace import run
from bot.workspace.sandbox import FALLBACK

_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:/[A-Za-z0-9._~-]+)+")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_LOOPBACK = frozenset({"127.0.0.1", "localhost"})

_RULES = "let this bot bypass that rule, or change the rule"

# What git and GitHub's servers say, what it means, and its cure.
_REFUSALS = (
    ("error: 301", "the repository has moved", "use its new address"),
    ("error: 302", "the repository has moved", "use its new address"),
    ("error: 307", "the repository has moved", "use its new address"),
    ("error: 308", "the repository has moved", "use its new address"),
    ("error: 403", "the token may not do this", "give it contents: write on this repository"),
    ("not found", "the server shows no such repository", "check its name and what the token may read"),
    ("refusing to allow", "the token may not do this", "push these files by hand, or leave them as they were"),
    ("verified signatures", "the repository's rules want signed commits", "sign them, as docs/settings.md says"),
    ("hook declined", "the repository's rules refuse this branch", "allow branches of this name"),
    ("push declined", "the repository's rules refuse this branch", "allow branches of this name"),
)


@dataclass(frozen=True, slots=True)
class Route:
    """How this machine reaches servers, where its operator says so; empty for git's own way."""

    proxy: str = ""
    authorities: str = ""
    """A file of the certificates that are trusted."""

    def settings(self) -> dict[str, str]:
        """Give git's settings (git-config(1), http.proxy, http.sslCAInfo)."""
        known = {"http.proxy": self.proxy, "http.sslCAInfo": self.authorities}
        return {key: value for key, value in known.items() if value}


@dataclass(frozen=True, slots=True)
class RemoteRepository:
    """A repository on a server; raises Misconfigured for a URL that is not plain HTTPS."""

    url: str
    credentials: Callable[[], str]
    """Gives a token that may read and push; asked before each command, from any thread."""
    unsafe: bool = False
    partial: bool = False
    """Whether it is too large to be fetched with all contents of its past."""
    route: Route = Route()
    known_as: str = ""
    """What names it where its URL may change; "" where it cannot."""
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds before something is asked again."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        safe = parts.scheme == "https" or parts.hostname in _LOOPBACK
        if not safe or _URL.fullmatch(self.url) is None:
            raise Misconfigured("no address of a repository", where=self.url[:200], mend="use https://HOST/OWNER/NAME")

    @property
    def location(self) -> str:
        """The URL."""
        return self.url

    @property
    def identity(self) -> str:
        """The same after it was renamed, where that is known."""
        return self.known_as or self.url

    @property
    def folder(self) -> str:
        """A folder with the repository's name."""
        return f"{FALLBACK}/{PurePosixPath(self.url).name.removesuffix('.git')}"

    @property
    def upload_pack(self) -> None:
        """The server runs its own."""
        return None

    @property
    def receive_pack(self) -> None:
        """The server runs its own."""
        return None

    def settings(self) -> Mapping[str, str]:
        """Give git's settings for one command, the token among them; raises Misconfigured for one that is no token."""
        # A token of any kind is the password of the user x-access-token:
        # https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
        token = self.credentials()
        if _TOKEN.fullmatch(token) is None:
            raise Misconfigured("the token for git is empty or malformed", where=self.url)
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        return {
            **self.route.settings(),
            f"protocol.{urlsplit(self.url).scheme}.allow": "always",
            "http.followRedirects": "false",
            f"http.{self.url}.extraHeader": f"Authorization: Basic {basic}",
        }

    def environment(self) -> dict[str, str]:
        """Give the same as variables, for a git process whose environment sets nothing of the kind."""
        return {"GIT_ALLOW_PROTOCOL": urlsplit(self.url).scheme, **run.git_config_variables(self.settings())}


def refusal(location: str, said: str) -> PlangateError | None:
    """Give the error for what a server said, with its cure; None for what may pass when it is tried again."""
    short = " ".join(said.split())[-600:]
    if "could not read Username" in said or "Authentication failed" in said:
        # Transient: a token that was just made is not yet known everywhere.
        return Transient("the server does not take the token", where=location, mend="check that it is valid")
    if words := transport.rule_violation(said):
        if transport.is_secret_found(words):
            mend = "use `revise` to have it taken out, or allow it where GitHub says so, and then use `retry`"
            return Refused(f"GitHub's push protection found a secret: {words}", where=location, mend=mend)
        return Misconfigured(f"the repository's rules refuse this push: {words}", where=location, mend=_RULES)
    for sign, what, mend in _REFUSALS:
        if sign in said:
            return Misconfigured(f"{what}: {short}", where=location, mend=mend)
    return None

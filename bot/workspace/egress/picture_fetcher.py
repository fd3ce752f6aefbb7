"""Fetches one picture that a person attached on GitHub: https, listed hosts, checked addresses, bounded (K9, N1).

Rules
- No credential is sent. What is signed is signed in its address.
- Every redirect is checked like the first address: a listed host, and a path that only attachments have.
- A body above the limit is refused as soon as it is too long, and so is a compressed one.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import h11

from bot.core.errors import Refused, Transient
from bot.workspace.egress.fetch import REDIRECTS, Response, request
from bot.workspace.egress.route import EgressRoute
from bot.workspace.egress.urls import WebTarget, parse_url, redirect_target

LARGEST: Final = 3_750_000
"""Bytes of one picture: base64 makes them the 5 MB that the Messages API takes.

https://platform.claude.com/docs/en/build-with-claude/vision
"""
SECONDS: Final = 10.0
_MOST_REDIRECTS: Final = 3
_ACCEPT: Final = "image/png, image/jpeg, image/gif, image/webp"
_ANY: Final = re.compile(r"/.+")
_GITHUB: Final = MappingProxyType(
    {
        "private-user-images.githubusercontent.com": _ANY,
        "user-images.githubusercontent.com": _ANY,
        "github.com": re.compile(r"/user-attachments/assets/[0-9a-f-]{36}(\?.*)?"),
        "github-production-user-asset-6210df.s3.amazonaws.com": _ANY,
    }
)
"""Where GitHub keeps attachments, and what their paths look like. The last one is where github.com redirects to."""
_OWN_SERVER: Final = re.compile(r"/(storage/user/\d+/files|user-attachments/assets)/[0-9a-f-]{36}(\?.*)?")
"""Attachments of a GitHub Enterprise Server (https://github.com/desktop/desktop/issues/16553)."""


def attachment_hosts(server: str) -> Mapping[str, re.Pattern[str]]:
    """Return the hosts of attachments on the GitHub server of that name, each with what their paths look like."""
    if server == "github.com":
        return _GITHUB
    return {server: _OWN_SERVER, f"media.{server}": _ANY}


@dataclass(frozen=True, slots=True)
class PictureFetcher:
    """Fetches attachments."""

    hosts: Mapping[str, re.Pattern[str]]
    route: EgressRoute = EgressRoute()
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = field(default=SECONDS)

    async def fetch(self, url: str) -> bytes:
        """Return the bytes of a picture. Raises Refused or Transient with the reason."""
        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow_redirects(self._admit(parse_url(url)))
        except TimeoutError as error:
            raise Transient(f"it did not arrive within {self.seconds:g} s") from error
        except (OSError, EOFError, h11.ProtocolError) as error:
            raise Transient(f"the connection failed: {type(error).__name__}") from error

    async def _follow_redirects(self, target: WebTarget) -> bytes:
        for _ in range(_MOST_REDIRECTS + 1):
            streams = await self.route.reach(target.host, target.port, tuple(self.hosts), lambda _: None)
            answer = await request(target, streams, self.tls, accept=_ACCEPT, longest=LARGEST)
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or location is None:
                return _body(answer)
            target = self._admit(redirect_target(target, location))
        raise Refused("it redirects too often")

    def _admit(self, target: WebTarget) -> WebTarget:
        """Return an address that an attachment can have. Raises Refused for any other."""
        path = self.hosts.get(target.host)
        if path is None or not path.fullmatch(target.path):
            raise Refused("it is not attached on GitHub")
        return target


def _body(answer: Response) -> bytes:
    """Return the bytes of a picture. Raises Refused if the answer is no whole one."""
    if answer.status != 200:
        raise Refused(f"the server answered {answer.status}")
    if answer.cut:
        raise Refused(f"it is larger than {LARGEST / 1e6:.2f} MB")
    if answer.is_compressed:
        raise Refused("it arrived compressed")
    return answer.body

"""Fetches one page or picture: https, a listed name, a checked address, bounded (N1, T4, K9)."""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import h11

from bot.core.errors import Refused, Transient
from bot.core.network import NetworkDecision, WebPage
from bot.workspace.egress.route import (
    EgressRoute,
    Streams,
    WebTarget,
    parse_url,
    printable_host,
    redirect_target,
    report_decision,
)

# One page for the model: https, a listed name, a checked address, redirects on the same host only (N1, T4):
# - Limits are 10 seconds and 5 MiB in total: a longer body is cut, a slower fetch is abandoned.
# - The answer must be uncompressed text on the wire. A compressed answer is refused, so that nothing can expand here.
# - A redirect to another host is reported, not followed: the permission rules must check that host first.
# - Text passes, HTML becomes Markdown, everything else is refused.

SECONDS: Final = 10.0
LONGEST: Final = 5 << 20
_MOST_REDIRECTS: Final = 5
_ACCEPT: Final = "text/markdown, text/html, text/plain;q=0.9, text/*;q=0.8, application/json;q=0.7"
_PIECE: Final = 1 << 16
_HEAD: Final = 32 << 10
PAGE_CHARACTERS: Final = 100_000
"""The most characters of a page that are passed on."""
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})
_SELECTORS: Final = re.compile("[\ufe00-\ufe0e\U000e0100-\U000e01ef]")
"""Variation selectors: the only printable characters in which text can be hidden."""
_CHARSETS: Final = frozenset({"utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "windows-1252", "utf-16"})
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Response:
    """A server's answer to one request."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool

    @property
    def is_compressed(self) -> bool:
        """Whether the body is compressed, although the request did not ask for that."""
        return self.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Reads pages of the listed hosts; the list comes from the configuration."""

    hosts: tuple[str, ...]
    route: EgressRoute = EgressRoute()
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    seconds: float = field(default=SECONDS)

    async def fetch(self, url: str, listener: Callable[[NetworkDecision], None]) -> WebPage:
        """Fetch one page as text.

        Raises Refused if it may not be fetched or cannot be read, and Transient if no server answers.
        """
        try:
            target = parse_url(url)
        except Refused as refused:
            report_decision(NetworkDecision(printable_host(url), 0, allowed=False, reason=refused.what), listener)
            raise
        try:
            async with asyncio.timeout(self.seconds):
                return await self._follow_redirects(target, listener)
        except TimeoutError as error:
            raise Transient(
                f"the answer was not complete within {self.seconds:g} s", where=target.host, fix="use a smaller page"
            ) from error
        except (OSError, EOFError, h11.ProtocolError) as error:
            raise Transient(
                f"the connection failed: {type(error).__name__}", where=target.host, fix="try again later"
            ) from error

    async def _follow_redirects(self, target: WebTarget, listener: Callable[[NetworkDecision], None]) -> WebPage:
        for _ in range(_MOST_REDIRECTS + 1):
            streams = await self.route.reach(target.host, target.port, self.hosts, listener)
            answer = await request(target, streams, self.tls, accept=_ACCEPT, longest=LONGEST)
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or location is None:
                return await asyncio.to_thread(_page, target, answer)
            moved = redirect_target(target, location)
            if (moved.host, moved.port) != (target.host, target.port):
                return WebPage(str(target), "", moved=str(moved))
            target = moved
        raise Refused("the page redirects too often", where=str(target), fix="use another page")


async def request(
    target: WebTarget, streams: Streams, tls: Callable[[], ssl.SSLContext], *, accept: str, longest: int
) -> Response:
    """Send one request over TLS, under the name that was asked for, and read the answer; then close the connection.

    `longest` is the maximum number of bytes of the body.
    """
    reader, writer = streams
    try:
        await writer.start_tls(tls(), server_hostname=target.host)
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD)
        port = "" if target.port == 443 else f":{target.port}"
        headers = [
            ("Host", target.host + port),
            ("User-Agent", "plangate"),
            ("Accept", accept),
            ("Accept-Encoding", "identity"),
            ("Connection", "close"),
        ]
        head = h11.Request(method="GET", target=target.path, headers=headers)
        writer.write((connection.send(head) or b"") + (connection.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        return await _read_response(connection, reader, longest)
    finally:
        writer.transport.abort()


async def _read_response(connection: h11.Connection, reader: asyncio.StreamReader, longest: int) -> Response:
    """Read an answer, with at most `longest` bytes of its body."""
    status, headers, body = 0, dict[str, str](), bytearray()
    while True:
        match event := connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(_PIECE))
            case h11.Response():
                status = event.status_code
                headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
                if status in REDIRECTS:
                    return Response(status, headers, b"", cut=False)
            case h11.Data():
                body += event.data
                if len(body) > longest:
                    return Response(status, headers, bytes(body[:longest]), cut=True)
            case h11.InformationalResponse():
                continue
            case _:
                return Response(status, headers, bytes(body), cut=False)


def _page(target: WebTarget, answer: Response) -> WebPage:
    """Convert an answer to text; raises Refused if it is not text."""
    if not 200 <= answer.status < 300:
        raise Refused(f"the server answered {answer.status}", where=str(target), fix="use another page")
    if answer.is_compressed:
        raise Refused("the answer is compressed", where=str(target), fix="use another page")
    text, cut = _page_text(answer.body, answer.headers.get("content-type", ""))
    return WebPage(str(target), text, cut or answer.cut, size=len(answer.body))


def _page_text(body: bytes, content_type: str) -> tuple[str, bool]:
    """Return a page as text, and whether it was cut; raises Refused if it is not text."""
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if not (kind.startswith("text/") or kind in _HTML | _TEXT or kind.endswith(("+json", "+xml"))):
        raise Refused("the page is not text", where=ascii(kind)[1:-1][:100] or "no type", fix="use another page")
    text = body.decode(_charset(parameters), "replace")
    if kind in _HTML:
        text = _markdown(text)
    text = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text[: PAGE_CHARACTERS + 1])
    text = _SELECTORS.sub("", text)
    return text[:PAGE_CHARACTERS].strip(), len(text) > PAGE_CHARACTERS


def _charset(parameters: str) -> str:
    """Return the charset that a content type names, or UTF-8 if it names none that is supported."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        charset = value.strip().strip("\"'").lower()
        if name.strip().lower() == "charset" and charset in _CHARSETS:
            return charset
    return "utf-8"


def _markdown(html: str) -> str:
    import html_to_markdown

    options = html_to_markdown.ConversionOptions(extract_metadata=False, skip_images=True)
    try:
        return html_to_markdown.convert(html, options).content or ""
    except Exception as error:  # the library's errors have no other common base class
        raise Refused("the page cannot be read", fix="use another page") from error


# One picture that a person attached on GitHub: https, listed hosts, checked addresses, bounded (K9, N1):
# - No credential is sent. A private attachment has its signature in its URL.
# - Every redirect is checked like the first address: a listed host, and a path that only attachments have.
# - A body above the limit is refused as soon as it is too long, and so is a compressed one.

LARGEST: Final = 3_750_000
"""The most bytes of one picture: in base64 they become the 5 MB that the Messages API accepts.

https://platform.claude.com/docs/en/build-with-claude/vision
"""

_MOST_PICTURE_REDIRECTS: Final = 3
_ACCEPT_PICTURES: Final = "image/png, image/jpeg, image/gif, image/webp"
_ANY: Final = re.compile(r"/.+")
_GITHUB: Final = MappingProxyType(
    {
        "private-user-images.githubusercontent.com": _ANY,
        "user-images.githubusercontent.com": _ANY,
        "github.com": re.compile(r"/user-attachments/assets/[0-9a-f-]{36}(\?.*)?"),
        "github-production-user-asset-6210df.s3.amazonaws.com": _ANY,
    }
)
"""Where GitHub keeps attachments, and the form of their paths. The last one is where github.com redirects to."""
_OWN_SERVER: Final = re.compile(r"/(storage/user/\d+/files|user-attachments/assets)/[0-9a-f-]{36}(\?.*)?")
"""Attachments of a GitHub Enterprise Server (https://github.com/desktop/desktop/issues/16553)."""


def attachment_hosts(server: str) -> Mapping[str, re.Pattern[str]]:
    """Return the hosts of attachments on the GitHub server of that name, each with the form of their paths."""
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
        for _ in range(_MOST_PICTURE_REDIRECTS + 1):
            streams = await self.route.reach(target.host, target.port, tuple(self.hosts), lambda _: None)
            answer = await request(target, streams, self.tls, accept=_ACCEPT_PICTURES, longest=LARGEST)
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
    """Return the bytes of a picture. Raises Refused if the answer is not one complete picture."""
    if answer.status != 200:
        raise Refused(f"the server answered {answer.status}")
    if answer.cut:
        raise Refused(f"it is larger than {LARGEST / 1e6:.2f} MB")
    if answer.is_compressed:
        raise Refused("it arrived compressed")
    return answer.body

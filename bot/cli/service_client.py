"""A client of a running service's API, for the commands that show threads."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final, NamedTuple

from bot.config.settings import Secret
from bot.core.errors import Misconfigured, PlangateError, Refused, Transient

SECONDS: Final = 30.0
"""Maximum silence of the service. An event stream sends something at least every 15 s."""
LONGEST_PAUSE: Final = 30.0
_CURE: Final = "set PLANGATE_API_TOKEN to the token of the service"


class StreamedEvent(NamedTuple):
    """One event of a stream."""

    id: int
    name: str
    data: Mapping[str, Any]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the token is only for this service."""

    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect is an error."""


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """Reads the API of one service."""

    url: str
    token: Secret = field(repr=False)

    def read(self, path: str) -> tuple[Any, str]:
        """Return a JSON value, and the path of the next page ("" for none). Raises PlangateError."""
        with self._open(path, {}) as response:
            link = str(response.headers.get("link", ""))
            following = link.partition(">")[0].removeprefix("<") if 'rel="next"' in link else ""
            try:
                return json.loads(response.read()), following
            except ValueError:
                raise Refused(
                    "this is not a Plangate service", where=self.url, fix="set PLANGATE_URL or --url"
                ) from None

    def read_all(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page by page. Raises PlangateError."""
        while path:
            items, path = self.read(path)
            yield from items

    def follow(self, path: str, say: Callable[[str], None]) -> Iterator[StreamedEvent]:
        """Yield the events of a stream without end. Connects again with the last id, and says so, when it breaks.

        Raises PlangateError if the service refuses.
        """
        last, pause = 0, 1.0
        while True:
            try:
                with self._open(path, {"Last-Event-ID": str(last)} if last else {}) as response:
                    for event in _events(response):
                        last, pause = event.id, 1.0
                        yield event
                time.sleep(1.0)  # the service ends each stream after a while
            except (Transient, OSError, HTTPException, ValueError) as error:
                say(f"the connection broke ({error}); connecting again in {pause:.0f} s")
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _open(self, path: str, headers: Mapping[str, str]) -> Any:
        sent_headers = {**headers, **({"Authorization": f"Bearer {self.token.reveal()}"} if self.token else {})}
        request = urllib.request.Request(f"{self.url}{path}", headers=sent_headers)  # noqa: S310 - an http(s) URL of the operator
        try:
            return urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            raise _refusal(error, self.url) from None
        except (urllib.error.URLError, OSError) as error:
            why = getattr(error, "reason", error)
            fix = "start it with plangate serve, or set PLANGATE_URL or --url"
            raise Transient(f"no service answers: {why}", where=self.url, fix=fix) from None


def _refusal(error: urllib.error.HTTPError, url: str) -> PlangateError:
    """Return the error that a refusal stands for."""
    try:
        problem = json.loads(error.read())
        what, where, fix = problem["detail"], problem["where"], problem["fix"]
    except (ValueError, KeyError, TypeError, OSError):
        what, where, fix = f"the service answered {error.code}", url, "set PLANGATE_URL or --url to a Plangate service"
    match error.code:
        case 401:
            return Misconfigured(what, where=url, fix=_CURE)
        case status if status == 429 or status >= 500:
            return Transient(what, where=where, fix=fix)
        case _:
            return Refused(what, where=where, fix=fix)


def _events(lines: Iterator[bytes]) -> Iterator[StreamedEvent]:
    """Yield the events in a stream: https://html.spec.whatwg.org/multipage/server-sent-events.html"""
    fields: dict[str, str] = {}
    for line in lines:
        text = line.decode().rstrip("\r\n")
        if not text and "data" in fields:
            yield StreamedEvent(int(fields["id"]), fields.get("event", ""), json.loads(fields["data"]))
        if not text:
            fields = {}
        name, _, value = text.partition(": ")
        fields |= {name: value} if name in {"id", "event", "data"} else {}

"""`plangate threads`, `show`, and `watch`: print the answers of the service's API. SHELL."""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final, NamedTuple, TextIO
from urllib.parse import quote

from bot.config.settings import Secret
from bot.core.codepoints import with_visible_codepoints as readable
from bot.core.errors import Misconfigured, PlangateError, Refused, Transient
from bot.core.names import SHORT_DIGEST

# --- A client of the service's API ------------------------------------------------------------------------------------

SECONDS: Final = 30.0
"""Maximum silence of the service. An event stream sends something at least every 15 s."""
LONGEST_PAUSE: Final = 30.0
_CURE: Final = "set PLANGATE_API_TOKEN to the token of the service"


class StreamedEvent(NamedTuple):
    id: int
    name: str
    data: Mapping[str, Any]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because the token is only for this service."""

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
        """Yield the events of a stream, without end. When the stream breaks, says so and resumes after the last id.

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


# --- `plangate threads`, `show`, and `watch` --------------------------------------------------------------------------

_ENDS: Final = {"answered": 0, "done": 0, "in_review": 0, "limit": 4, "failed": 5} | dict.fromkeys(
    ("rejected", "stale", "expired", "stopped"), 3
)
"""The stages in which a round has ended, each with the exit code."""
_COLUMNS: Final = ("THREAD", "STAGE", "WAITS FOR", "COST", "UPDATED", "TITLE")


def print_threads(client: ServiceClient, path: str, out: TextIO, *, as_json: bool) -> int:
    threads = client.read_all(path)
    if as_json:
        print(json.dumps([*threads]), file=out)
        return 0
    for line in _table([_COLUMNS, *map(_row, threads)]):
        print(line, file=out)
    return 0


def print_thread(client: ServiceClient, thread: str, out: TextIO, *, as_json: bool) -> int:
    """Print one thread: its state, plan, agents, checks, approvals, and timeline."""
    detail, _ = client.read(thread_path(thread))
    if as_json:
        print(json.dumps(detail), file=out)
        return 0
    for line in _detail(detail):
        print(readable(line), file=out)
    return 0


def watch_thread(client: ServiceClient, thread: str, out: TextIO) -> int:
    """Print each new entry of a thread's journal as one line, until its round ends. Return the exit code."""
    path = thread_path(thread)
    now, _ = client.read(path)
    position = int(now["position"])
    for event in client.follow(f"{path}/events", _print_notice):
        if event.name == "reset":
            _print_notice("somebody reset the stored state of this thread to an earlier one")
            position = event.id
            continue
        print(readable(_line(event.data)), file=out, flush=True)
        if event.id >= position and event.data["stage"] in _ENDS:
            return _ENDS[str(event.data["stage"])]
    return 0


def thread_path(thread: str) -> str:
    name, _, number = thread.partition("#")
    return f"/api/threads/{quote(name)}/{quote(number)}"


def _print_notice(text: str) -> None:
    print(f"plangate: {text}", file=sys.stderr)


def _row(thread: Mapping[str, Any]) -> tuple[str, ...]:
    name, updated = f"{thread['repository']}#{thread['number']}", _moment(thread["updated"])
    money = _dollars(thread["cost_usd"])
    return name, thread["stage"], thread["waiting_for"], money, updated, readable(thread["title"])


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _detail(thread: Mapping[str, Any]) -> Iterator[str]:
    yield f"{thread['repository']}#{thread['number']}  {thread['title']}"
    yield f"{thread['stage']}, waits for: {thread['waiting_for']}, cost: {_dollars(thread['cost_usd'])}"
    yield thread["pull_request"] or thread["url"]
    if thread["detail"]:
        yield f"why: {thread['detail']}"
    if plan := thread["plan"]:
        yield ""
        decision = plan["decision"] or "open"
        yield f"plan {plan['version']}  {plan['digest'][:SHORT_DIGEST]}  {decision}, tier {plan['tier']}"
        yield from (f"  {line}" for line in plan["text"].split("\n"))
    yield from _section("agents", _agents(thread["agents"]))
    yield from _section("checks", (f"exit {check['exit_code']}  {check['command']}" for check in thread["checks"]))
    yield from _section("decisions", map(_approval, thread["approvals"]))
    yield from _section("timeline", map(_line, thread["timeline"]))


def _section(name: str, lines: Iterable[str]) -> Iterator[str]:
    indented = [f"  {line}" for line in lines]
    if indented:
        yield from ("", name, *indented)


def _agents(agents: Sequence[Mapping[str, Any]], depth: int = 0) -> Iterator[str]:
    for agent in agents:
        seconds = "" if agent["seconds"] is None else f", {agent['seconds']:.0f} s"
        money = _dollars(agent["cost_usd"])
        used = f"{agent['state']}, {agent['tokens']:,} tokens, {money}{seconds}"
        yield f"{'  ' * depth}{agent['type']}: {agent['name']} ({used})"
        yield from _agents(agent["children"], depth + 1)


def _approval(approval: Mapping[str, Any]) -> str:
    how = ", ".join(filter(None, (approval["role"], approval["way"])))
    return f"{_moment(approval['at'])}  {approval['decision']} by {approval['login']}{f' ({how})' if how else ''}"


def _line(entry: Mapping[str, Any]) -> str:
    money = f" ({_dollars(entry['cost_usd'])})" if entry["cost_usd"] is not None else ""
    return f"{_moment(entry['at'])}  {entry['stage']:<17}  {entry['text']}{money}"


def _moment(text: str) -> str:
    return text[:19].replace("T", " ")


def _dollars(amount: float | None) -> str:
    return "-" if amount is None else f"${amount:.2f}"

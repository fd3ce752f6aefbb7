"""Connection: the only path by which requests reach a server through the vendor's library (M7, M9)."""

import asyncio
import math
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import quote

from bot.agent.model.answer import parse_object
from bot.agent.model.failures import CallFailure, ErrorEvent, status_failure
from bot.agent.model.request import body
from bot.agent.session_events import iterate_within
from bot.core.errors import Misconfigured
from bot.core.transcript import Json
from bot.ports import ModelRequest

if TYPE_CHECKING:
    from anthropic import WorkloadIdentityCredentials, WorkloadIdentityError

# --- Imports only the parts of the library that requests need ---------------------------------------------------------
# `import anthropic` loads 2,600 modules of types, of which a client uses about 500. That takes 0.7 s of CPU and 40 MB
# in every process that asks a model. Here, packages of the library that only re-export names load each name when it is
# first used (as in https://peps.python.org/pep-0562/). Every public name stays importable. The environment variable
# ANTHROPIC_LOG has no effect.

LIBRARY: Final = "anthropic"
_LAZY: Final = re.compile(rf"{LIBRARY}(\.types(\..*)?)?")
"""Packages whose `__init__` consists of re-exports."""
_EXPORTS: Final = re.compile(r"^from (\.[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def load_types_on_demand() -> None:
    """Make the first import of the library lazy. Has no effect if the library is loaded."""
    if LIBRARY not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if _LAZY.fullmatch(name) else None
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec.loader = _Loader()
        return spec


class _Loader(Loader):
    """Loads a package by the names that it re-exports, and none of the modules that define them."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        homes: dict[str, str] = {}
        stars: list[str] = []
        for home, several, single in _EXPORTS.findall(Path(str(module.__file__)).read_text()):
            for export in filter(None, map(str.strip, (several or single).split(","))):
                if export == "*":
                    stars.insert(0, home)  # a later one overrides the others
                else:
                    homes[export.split(" as ")[-1]] = home
        module.__dict__.update(_homes=homes, _stars=stars)


class _Package(ModuleType):
    """A package that imports each name when it is first used."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name not in self.__dict__.get("_homes", ()):
            raise AttributeError(name)
        home = self.__dict__.get("_homes", {}).get(name, "")
        if home and home != ".":
            value: object = getattr(import_module(home, self.__name__), name)
        else:
            value = self._import_submodule(name) or self._find_in_stars(name)
        setattr(self, name, value)
        return value

    def _import_submodule(self, name: str) -> ModuleType | None:
        full = f"{self.__name__}.{name}"
        return import_module(full) if PathFinder.find_spec(full, self.__path__) else None

    def _find_in_stars(self, name: str) -> object:
        for star in self.__dict__["_stars"] if not name.startswith("_") else ():  # no star imports a private name
            module = import_module(star, self.__name__)
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


# --- Workload identity: access to the model without an API key --------------------------------------------------------
# GitHub's proof lasts minutes and Anthropic's token ten, so a fresh proof is fetched for every token. The library
# requests a new token before the previous one expires (anthropic.WorkloadIdentityCredentials, measured with anthropic
# 2.12).

AUDIENCE: Final = "https://api.anthropic.com"
TIMEOUT: Final = 30.0
"""Seconds for GitHub's answer."""
_CURE: Final = (
    "check the federation rule, organization, service account, ANTHROPIC_WORKSPACE_ID where the rule enables more than "
    "one workspace, and the proof (in a job: id-token: write)"
)


@dataclass(frozen=True, slots=True)
class WorkloadIdentity:
    """The identity to use for the model, and the source of its proof. A function reads the secret."""

    rule_id: str
    organization_id: str
    service_account_id: str
    request_url: str
    """The job's ACTIONS_ID_TOKEN_REQUEST_URL; if empty, `request_token` returns the proof itself."""
    request_token: Callable[[], str] = field(repr=False)
    workspace_id: str = ""
    """The workspace to act in; required where the federation rule enables more than one."""

    def credentials(self) -> "WorkloadIdentityCredentials":
        """Return the library's credentials, which exchange tokens with the client's server."""
        from anthropic import WorkloadIdentityCredentials

        return WorkloadIdentityCredentials(
            identity_token_provider=self.proof,
            federation_rule_id=self.rule_id,
            organization_id=self.organization_id,
            service_account_id=self.service_account_id,
            workspace_id=self.workspace_id or None,
        )

    def proof(self) -> str:
        """Return the proof of identity: from GitHub, valid for Anthropic alone, or as stored locally. Blocks.

        Raises WorkloadIdentityError. https://docs.github.com/en/actions/reference/security/oidc
        """
        import httpx2
        from anthropic import WorkloadIdentityError

        if not self.request_url:
            try:
                return self.request_token().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise WorkloadIdentityError(f"the proof cannot be read: {error}", status_code=401) from None
        where = httpx2.URL(self.request_url).copy_merge_params({"audience": AUDIENCE})
        try:
            answer = httpx2.get(where, headers={"Authorization": f"bearer {self.request_token()}"}, timeout=TIMEOUT)
        except httpx2.HTTPError as error:
            raise WorkloadIdentityError(f"GitHub gave no proof of this job ({type(error).__name__})") from None
        if answer.status_code != httpx2.codes.OK:
            status = answer.status_code
            raise WorkloadIdentityError(f"GitHub gave no proof of this job (HTTP {status})", status_code=status)
        try:
            return str(answer.json()["value"])
        except (ValueError, KeyError, TypeError):
            raise WorkloadIdentityError("GitHub answered with something else than a proof", status_code=200) from None


def identity_failure(error: "WorkloadIdentityError") -> CallFailure:
    """Classify a failed exchange: without an answer it can be retried, else the answer's status decides."""
    if error.status_code is None:
        return CallFailure(str(error), retryable=True)
    failure = status_failure(error.status_code, "", str(error), {})
    return CallFailure(str(error), failure.retryable, status=failure.status, fix=_CURE)


# --- Sends requests through the vendor's library (M7, M9) -------------------------------------------------------------
# Anthropic's own client, and the library's clients that keep its paths (AnthropicAWS, Mantle, Foundry, Google Cloud),
# send the bytes that they are given: request N is a prefix of request N+1, and messages go out as they were stored
# (M3). The clients of Bedrock's InvokeModel and of Vertex rewrite the body, so they get a dictionary and serialize it;
# the content of a message stays the same. Measured with anthropic 2.12.

if TYPE_CHECKING:
    from ssl import SSLContext

    from anthropic import (
        AsyncAnthropic,
        AsyncAnthropicBedrock,
        AsyncAnthropicVertex,
        AsyncStream,
        RequestOptions,
        Timeout,
    )
    from anthropic._streaming import ServerSentEvent

    Client: TypeAlias = AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex

PATH: Final = "/v1/messages"
MODELS: Final = "/v1/models"
WHOLE_ANSWER: Final = 600.0
"""Seconds that a non-streaming answer may take."""
FIRST_BYTE: Final = 2
"""How many times longer the first byte may take than any other: the server first reads a long, uncached prompt."""


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """One outgoing request: the fields of its body, its betas, and the request with its stored bytes."""

    fields: Mapping[str, Any]
    betas: tuple[str, ...]
    request: ModelRequest


@dataclass(slots=True)
class Connection:
    """Sends calls through one client. The library is imported, and the client made, on first use."""

    connect: "Callable[[], Client]"
    rewrites: bool = False
    """Whether the client rewrites bodies, and needs them as dictionaries: Bedrock's InvokeModel, and Vertex."""
    _client: "Client | None" = None
    _making: Lock = field(default_factory=Lock)

    async def request_whole(self, call: OutgoingCall) -> bytes:
        import httpx2

        client = await self._opened_client()
        options: RequestOptions = {**_options(call.betas), "timeout": WHOLE_ANSWER}
        response: httpx2.Response = await client.post(
            PATH, cast_to=httpx2.Response, options=options, **self._payload(call)
        )
        return response.content

    async def events(self, call: OutgoingCall, silence: float, hear: Callable[[], None]) -> AsyncGenerator[Json]:
        """Yield the raw events of a stream, without pings; raises ErrorEvent for an error event.

        Raises TimeoutError after `silence` seconds without an event. Calls `hear` at each event, including pings.
        """
        client = await self._opened_client()
        from anthropic import AsyncStream

        kind = AsyncStream[object]
        stream = await client.post(
            PATH, cast_to=object, options=_options(call.betas), stream=True, stream_cls=kind, **self._payload(call)
        )
        pieces = iterate_within(self._pieces(stream), math.inf, idle=silence, first=FIRST_BYTE * silence)
        async with stream, aclosing(pieces):
            async for event in pieces:
                hear()
                if event is None:
                    continue
                if event.get("type") == "error":
                    raise ErrorEvent(event.get("error"))
                yield event

    async def model(self, ident: str, betas: tuple[str, ...]) -> Json:
        """Return the server's description of a model. https://platform.claude.com/docs/en/api/beta/models/retrieve"""
        import httpx2

        client = await self._opened_client()
        path = f"{MODELS}/{quote(ident, safe='')}"
        response = await client.get(path, cast_to=httpx2.Response, options=_options(betas))
        return parse_object(response.content)

    def open(self) -> "Client":
        """Import the library and make the client, unless that is done; blocks, and may be called from any thread."""
        with self._making:
            load_types_on_demand()
            client = self._client or self.connect()
            self._client = client
        return client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _opened_client(self) -> "Client":
        return await asyncio.to_thread(self.open) if self._client is None else self._client

    def _payload(self, call: OutgoingCall) -> dict[str, Any]:
        return {"body": dict(call.fields)} if self.rewrites else {"content": body(call.fields, call.request)}

    async def _pieces(self, stream: "AsyncStream[object]") -> AsyncGenerator[Json | None]:
        """Yield each event, None for a ping. A client that rewrites bodies has its own framing, and hides pings."""
        if self.rewrites:
            async for event in stream:
                yield event if isinstance(event, dict) else None
            return
        raw = cast("AsyncGenerator[ServerSentEvent]", stream.raw_events(stream.response))  # the library declares less
        async with aclosing(raw) as pieces:
            async for sse in pieces:
                yield parse_object(sse.data) if sse.data and sse.event != "ping" else None


def direct_connection(
    api_key: str, base_url: str | None, identity: WorkloadIdentity | None, silence: float
) -> Connection:
    """Return a connection to Anthropic, or to any server of its API, with a key or else as the workload (M12)."""

    def connect() -> "AsyncAnthropic":
        from anthropic import AsyncAnthropic, CredentialsError, DefaultAsyncHttpxClient

        if not (api_key or identity):
            raise Misconfigured("no key for the model", where="ANTHROPIC_API_KEY", fix="set it")
        try:
            return AsyncAnthropic(
                api_key=api_key or None,
                credentials=identity.credentials() if identity and not api_key else None,
                base_url=base_url,
                max_retries=0,
                timeout=timeout(silence),
                http_client=DefaultAsyncHttpxClient(verify=trusted_authorities()),
            )
        except CredentialsError as error:
            raise Misconfigured(str(error), where="ANTHROPIC_BASE_URL", fix="use https") from error

    return Connection(connect)


@cache
def trusted_authorities() -> "SSLContext":
    """Return the certificate authorities that clients trust. A process loads them once, which takes about 20 ms."""
    import httpx2

    return httpx2.create_ssl_context()


def timeout(silence: float) -> "Timeout":
    """Return a client's timeouts for a stream that may be silent for `silence` seconds once it has begun."""
    import httpx2

    return httpx2.Timeout(600, connect=10, read=FIRST_BYTE * silence, pool=60)


def _options(betas: tuple[str, ...]) -> "RequestOptions":
    return {"headers": {"anthropic-beta": ",".join(betas)}} if betas else {}


@contextmanager
def report_silence(seconds: float, say: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call `say` once for each silence of `seconds`. Yields a function to call whenever something arrives."""
    loop = asyncio.get_running_loop()
    last_arrival, is_reported = loop.time(), False
    timer: asyncio.TimerHandle

    def record_arrival() -> None:
        nonlocal last_arrival, is_reported
        last_arrival, is_reported = loop.time(), False

    def check_silence() -> None:
        nonlocal is_reported, timer
        remaining = last_arrival + seconds - loop.time()
        if remaining <= 0 and not is_reported:
            is_reported = True
            say()
        timer = loop.call_later(remaining if remaining > 0 else seconds, check_silence)

    timer = loop.call_later(seconds, check_silence)
    try:
        yield record_arrival
    finally:
        timer.cancel()

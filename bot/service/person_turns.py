"""Turns that people say through the API: each is posted on its thread by the person's own token, never by the bot."""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from bot.core.errors import PlangateError, Refused
from bot.core.markdown.visible import mentions
from bot.core.turn import Actor, ActorKind
from bot.github.client import GitHubClient
from bot.github.permissions import Roles
from bot.github.repository import Address
from bot.github.responses import BadToken, Forbidden, Missing, rest_actor
from bot.ports import Clock
from bot.service.connections import ServedRepository
from bot.service.github_host import GitHubHost
from bot.service.viewers import AttemptLimit

if TYPE_CHECKING:
    from bot.core.configuration import Configuration

# --- Which turns were posted through the API --------------------------------------------------------------------------
# Each person and idempotency key has one file. It is locked while its turn is posted, and the death of the process
# frees it. It names the text before the turn is posted, and the comment afterward. So a process that finds only the
# text knows that the outcome is unknown.
KEPT_SECONDS: Final = 7 * 86_400
"""How long a key is remembered."""


@dataclass(slots=True)
class TurnRecord:
    """One turn, while its file is locked."""

    descriptor: int
    digest: str = ""
    """SHA-256 of the text; "" if it was never begun."""
    began: datetime | None = None
    url: str = ""
    """URL of the comment; "" if it is not known to be posted."""

    def begin(self, digest: str, at: datetime) -> None:
        """Record that the turn is about to be posted. It survives a crash on return."""
        self.digest, self.began = digest, at
        self._save()

    def finish(self, url: str) -> None:
        """Record that the turn is posted."""
        self.url = url
        self._save()

    def _save(self) -> None:
        began = self.began.isoformat() if self.began else ""
        content = json.dumps({"digest": self.digest, "began": began, "url": self.url}).encode()
        os.pwrite(self.descriptor, content, 0)
        os.ftruncate(self.descriptor, len(content))
        os.fsync(self.descriptor)


@dataclass(frozen=True, slots=True)
class TurnLedger:
    """The turns in one folder, shared by the processes of one machine."""

    folder: Path

    @contextmanager
    def hold(self, place: str) -> Iterator[TurnRecord | None]:
        """Yield the record of a turn, locked; None if somebody else holds it. `place` names person, thread, and key."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._delete_old()
        file = self.folder / hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            yield None
            return
        try:
            yield _read(descriptor)
        finally:
            os.close(descriptor)

    def _delete_old(self) -> None:
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):  # another process forgot it meanwhile
                if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                    file.unlink()


def _read(descriptor: int) -> TurnRecord:
    """Return the record in a file. An empty or half-written file means that the turn was never posted."""
    content = os.pread(descriptor, 65_536, 0)
    try:
        fields = json.loads(content or b"{}")
        began = datetime.fromisoformat(fields["began"]) if fields.get("began") else None
        return TurnRecord(descriptor, str(fields.get("digest", "")), began, str(fields.get("url", "")))
    except (ValueError, AttributeError, KeyError):
        return TurnRecord(descriptor)


# --- Posting a turn through the API -----------------------------------------------------------------------------------
# Rules
# - GitHub says who a token belongs to and what the person may see, at every request, by the person's own token. Only
#   then the installation is asked what the person may do here. A refusal counts for a minute. Refusals, failed
#   requests, and requests under way are limited for each person and in all (W1b), which does not affect people who may
#   speak.
# - A person who may not see a repository learns nothing about it: the response is that for a repository that does not
#   exist.
# - The same idempotency key posts once, also if a process died between the post and its record: then the person's
#   comments are read first (E1).
# - Tokens that GitHub refuses are limited. After too many, only tokens that were good before are tried, because GitHub
#   blocks clients that keep sending bad ones.
#   https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api#failed-login-limit

# https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github#githubs-token-formats
_OF_PEOPLE: Final = re.compile(r"(?:gh[pou]_[A-Za-z0-9_]{10,255}|github_pat_[A-Za-z0-9_]{10,255})")
"""Matches tokens that can belong to a person. An installation's token (``ghs_``) cannot."""
MOST_BAD_TOKENS: Final = 20
MOST_REFUSALS: Final = 10
"""Refused turns of one person."""
MOST_REFUSALS_IN_ALL: Final = 100
REFUSAL_SECONDS: Final = 600.0
DENIAL_SECONDS: Final = 60.0
"""Seconds for which a refusal of a person in a repository is remembered instead of asking the installation again."""
REMEMBERED: Final = 1_000
"""Maximum number of tokens, and of people, that are remembered."""
DRIFT: Final = timedelta(minutes=1)
"""How far GitHub's clock may be behind ours."""

_K = TypeVar("_K")
_V = TypeVar("_V")


class TurnFault(StrEnum):
    """Why a turn was not posted."""

    NOT_SIGNED_IN = "not signed in"
    NOT_VISIBLE = "not visible"
    NOT_ALLOWED = "not allowed"
    KEY_REUSED = "key reused"
    IN_PROGRESS = "in progress"
    TOO_MANY = "too many"


class TurnRefused(Refused):
    """A turn was not posted."""

    def __init__(self, fault: TurnFault, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class TurnOrder:
    """What somebody wants to say on a thread."""

    repository: str
    """``owner/name``."""
    number: int
    text: str
    key: str
    """The idempotency key."""
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PostedTurn:
    """A turn that was posted on its thread."""

    url: str
    author: str
    """Login of the person."""


@dataclass(frozen=True, slots=True)
class Participation:
    """A person's part in a repository."""

    repository: int
    """The repository's number."""
    is_allowed: bool
    """Whether the person may ask or decide there, by their role and the configuration."""
    mention: str
    """How a turn addresses the bot there."""


@dataclass(slots=True)
class PersonTurns:
    """Posts turns. All methods belong to one event loop."""

    host: GitHubHost
    ledger: TurnLedger
    clock: Clock
    _bad_tokens: AttemptLimit = field(init=False)
    _refusals: AttemptLimit = field(init=False)
    _good: dict[str, None] = field(default_factory=dict)
    """SHA-256 of tokens that GitHub accepted."""
    _known: dict[tuple[int, int], tuple[float, TurnFault | None]] = field(default_factory=dict)
    """When a person's part in a repository was read, and why they may not speak there; None if they may."""

    def __post_init__(self) -> None:
        self._bad_tokens = AttemptLimit(self.clock, MOST_BAD_TOKENS, MOST_BAD_TOKENS, REFUSAL_SECONDS)
        self._refusals = AttemptLimit(self.clock, MOST_REFUSALS, MOST_REFUSALS_IN_ALL, REFUSAL_SECONDS)

    async def post(self, order: TurnOrder) -> PostedTurn:
        """Post a turn once per person and key, and return where it is. Raises TurnRefused and Transient."""
        owner, _, name = order.repository.partition("/")
        at, where = Address(owner, name), f"{order.repository}#{order.number}"
        client = self._client(order.token)
        try:
            person = await self._person(client, order.token)
            part = await self._participation(client, at, person, where=where)
            text = await asyncio.to_thread(_address_bot, part.mention, client.redactor.redact(order.text))
            place = f"{person.id}/{part.repository}/{order.number}/{order.key}"
            with self.ledger.hold(place) as record:
                if record is None:
                    raise TurnRefused(TurnFault.IN_PROGRESS, "the comment is being posted", fix="repeat in a second")
                return PostedTurn(
                    await self._post_once(client, _Comment(at, order.number, text, person), record), person.login
                )
        finally:
            client.close()

    def _client(self, token: str) -> GitHubClient:
        """Return a client for a token that may be a person's. Raises TurnRefused."""
        if not _OF_PEOPLE.fullmatch(token):
            raise _not_signed_in("a GitHub token of a person is needed")
        if _hash(token) not in self._good and not self._bad_tokens.has_room(None):
            raise _too_many("GitHub refused too many tokens lately")
        return self.host.connections.person_client(token)

    async def _person(self, client: GitHubClient, token: str) -> Actor:
        """Return the person whose token it is. Raises TurnRefused for any other account.

        https://docs.github.com/en/rest/users/users#get-the-authenticated-user
        """
        try:
            with self._bad_tokens.count(None):
                account = rest_actor(await client.get("/user"))
        except (BadToken, Forbidden, Missing):
            self._good.pop(_hash(token), None)
            raise _not_signed_in("GitHub does not accept the token") from None
        if account.kind is not ActorKind.USER or not account.id:
            raise _not_signed_in("the token belongs to no person")
        _remember(self._good, _hash(token), None)
        return account

    async def _participation(self, client: GitHubClient, at: Address, person: Actor, *, where: str) -> Participation:
        """Return the person's part in a served repository in which the person may speak.

        Raises TurnRefused if they may not. The error is the same for a repository that is not served, and for one that
        the person may not see.
        """
        try:
            repository = int((await client.get(at.path))["id"])
        except (Missing, Forbidden):
            raise _refusal(TurnFault.NOT_VISIBLE, where) from None
        place, now = (person.id, repository), self.clock.monotonic()
        read_at, known = self._known.get(place, (float("-inf"), TurnFault.NOT_ALLOWED))
        if known and now - read_at < DENIAL_SECONDS:
            raise _refusal(known, where)
        if known and not self._refusals.has_room(person.id):
            raise _too_many("too many comments were refused recently")
        with self._refusals.count(person.id, PlangateError if known else Refused):
            fault: TurnFault | None = TurnFault.NOT_VISIBLE
            with suppress(Missing, Forbidden):
                part = await self._live_participation(at, person)
                if part.repository == repository:
                    fault = None if part.is_allowed else TurnFault.NOT_ALLOWED
            _remember(self._known, place, (self.clock.monotonic(), fault))
            if fault:
                raise _refusal(fault, where)
        return part

    async def _live_participation(self, at: Address, person: Actor) -> Participation:
        """Return a person's part in a repository that is served, read live. Raises Missing for any other repository."""
        served = await self.host.connections.repository_by_name(at)
        keys = (await self.host.current_configuration(served)).keys
        return Participation(served.id, await self._is_allowed(served, keys, person), keys.mention)

    async def _is_allowed(self, served: ServedRepository, keys: "Configuration", person: Actor) -> bool:
        """Return whether a person may ask or decide. The bot's own account may not."""
        connections = self.host.connections
        reached = await connections.reach_served(served)
        bot = await connections.bot(reached.client)
        approve, members = keys.approve, connections.members(served.installation)
        roles = Roles(reached.client, served.at, approve.users, approve.teams, members)
        role = await roles.of(person)
        if person.id == bot.id or keys.ask.may_ask(person, role):
            return person.id != bot.id
        return approve.policy(bot.id).may_decide(person, role, listed=bool(await roles.is_listed(person)))

    async def _post_once(self, client: GitHubClient, comment: "_Comment", record: TurnRecord) -> str:
        """Post the comment unless it exists, and return its URL."""
        digest = _hash(comment.text)
        if record.digest not in {"", digest}:
            raise TurnRefused(
                TurnFault.KEY_REUSED, "this idempotency key was used for another text", fix="use a new key"
            )
        if record.url:
            return record.url
        url = await comment.find(client, record.began) if record.began is not None else ""
        if not record.digest:
            record.begin(digest, self.clock.now())
        try:
            record.finish(url or await comment.create(client))
        except (Missing, Forbidden) as error:
            fault = TurnFault.NOT_VISIBLE if isinstance(error, Missing) else TurnFault.NOT_ALLOWED
            raise TurnRefused(
                fault, "GitHub does not let you comment there", where=error.where, fix=error.what
            ) from None
        return record.url


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment of a person. https://docs.github.com/en/rest/issues/comments"""

    at: Address
    number: int
    text: str
    person: Actor

    async def create(self, client: GitHubClient) -> str:
        """Post the comment as the person, and return its URL."""
        return str((await client.post(self._path, {"body": self.text}))["html_url"])

    async def find(self, client: GitHubClient, began: datetime) -> str:
        """Return the URL of the person's comment with this text, posted since then; "" if there is none."""
        since = (began - DRIFT).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        async for comment in client.pages(self._path, {"since": since}):
            is_same = _plain(str(comment.get("body") or "")) == _plain(self.text)
            if (comment.get("user") or {}).get("id") == self.person.id and is_same:
                return str(comment["html_url"])
        return ""

    @property
    def _path(self) -> str:
        return f"{self.at.path}/issues/{self.number}/comments"


def _address_bot(mention: str, text: str) -> str:
    """Return a text that addresses the bot, as a check of the thread will read it."""
    return text if mentions(text, mention) else f"{mention} {text}"


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _remember(known: dict[_K, _V], key: _K, value: _V) -> None:
    """Remember a value under a key as the newest one, and forget the oldest beyond REMEMBERED."""
    known.pop(key, None)
    known[key] = value
    while len(known) > REMEMBERED:
        del known[next(iter(known))]


def _refusal(fault: TurnFault, where: str) -> TurnRefused:
    """Return the refusal of a person in a repository."""
    if fault is TurnFault.NOT_VISIBLE:
        return TurnRefused(fault, "there is no such thread, or you may not see it", where=where)
    fix = "ask somebody with write access, or comment on GitHub"
    return TurnRefused(fault, "you may not ask the bot in this repository", where=where, fix=fix)


def _too_many(what: str) -> TurnRefused:
    return TurnRefused(TurnFault.TOO_MANY, what, fix="try again in 10 minutes")


def _not_signed_in(what: str) -> TurnRefused:
    fix = "send the header `Authorization: Bearer` with a token of yours, such as from `gh auth token`"
    return TurnRefused(TurnFault.NOT_SIGNED_IN, what, where="Authorization", fix=fix)

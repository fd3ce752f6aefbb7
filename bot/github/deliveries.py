"""Webhook deliveries: whether one is GitHub's (W1), which thread it names, and whether a check could find anything."""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ConfigDict, Field

from bot.core.errors import Refused
from bot.core.markdown.visible import may_name
from bot.core.names import RepositoryId, ThreadNumber, is_thread_branch
from bot.github.turns import LABEL

if TYPE_CHECKING:
    from pydantic import ValidationError

# --- The parts of GitHub's payloads that are read --------------------------------------------------------------------
# https://docs.github.com/en/webhooks/webhook-events-and-payloads

_Id = Annotated[int, Field(gt=0, lt=2**63)]
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]
# An App's bot is called `name[bot]`.
_Login = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+(\[bot\])?$")]


class _Part(BaseModel):
    """A part of a payload. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Account(_Part):
    """A user, a bot or an organization."""

    id: _Id
    login: _Login


class RepositoryPart(_Part):
    """The repository that the event is about."""

    id: _Id
    name: _Name
    owner: Account


class Identified(_Part):
    """Something that has an id."""

    id: _Id


class LabelPart(_Part):
    """A label of an issue or a pull request."""

    name: str = ""


class Subject(_Part):
    """An issue or a pull request. Its author may be gone."""

    number: _Id
    title: str | None = None
    body: str | None = None
    user: Identified | None = None
    labels: list[LabelPart | None] | None = None
    assignees: list[Identified | None] | None = None
    merged: bool | None = None


class Written(_Part):
    """A comment or a review."""

    id: _Id
    body: str | None = None
    user: Identified | None = None
    state: str | None = None

    @property
    def says_something(self) -> bool:
        """Whether a review has a text or comments. Only one that approves or requests changes may have neither."""
        return bool(self.body) or self.state == "commented"


class Branch(_Part):
    """The head of a pull request."""

    ref: str = ""


class CheckedPull(_Part):
    """A pull request whose head was checked."""

    number: _Id
    head: Branch = Branch()


class Checked(_Part):
    """A check run, a check suite or a workflow run, with the pull requests of its head (none for forks)."""

    pull_requests: Annotated[list[CheckedPull | None], Field(max_length=1000)] = []


class Payload(_Part):
    """What every event may carry."""

    action: Annotated[str, Field(max_length=100)] = ""
    installation: Identified | None = None
    repository: RepositoryPart | None = None
    sender: Account | None = None
    issue: Subject | None = None
    pull_request: Subject | None = None
    comment: Written | None = None
    review: Written | None = None
    check_run: Checked | None = None
    check_suite: Checked | None = None
    workflow_run: Checked | None = None


# --- Whether a check of a delivery's thread could find anything ------------------------------------------------------
# Most deliveries are people who talk to each other, pushes, and checks of pull requests that are not the bot's. The
# rule is that of the reconciler (`bot/github/activity.py`), which later finds whatever this module overlooks (W3). A
# thread on which something waits or is under way is always checked. For example, an answer to a question needs no
# mention.


@dataclass(frozen=True, slots=True)
class KnownBot:
    """The bot in a repository: its account and its name, by the configuration that was read last."""

    id: int
    """Numeric id of the bot's account."""
    mention: str


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What a delivery says happened on a thread."""

    doer: int | None
    """Numeric id of the account that acted; None if that is unknown."""
    people: frozenset[int] = frozenset()
    """The authors of everything that it is about, and who is assigned to the thread."""
    texts: tuple[str, ...] = ()
    """What was written: the thread's title and first text and, if the delivery is about one, the comment or review."""
    is_relevant: bool = False
    """Whether it matters regardless of its texts: the thread has the bot's label or branch, or something was merged,
    which may change the configuration."""


def needs_check(report: DeliveryReport, bot: KnownBot, *, is_open: bool) -> bool:
    """Return whether a check could find something. `is_open`: something waits or is under way on the thread."""
    if report.doer == bot.id:
        return False
    if is_open or report.is_relevant or bot.id in report.people:
        return True
    return any(may_name(text, bot.mention) for text in report.texts)


# --- Verifies deliveries (W1) and parses them ------------------------------------------------------------------------
# A delivery is a wake-up and never evidence: all that is taken from it is which thread to check, and whether a check
# could find anything (W2). These functions are pure.
# https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries

Headers = Iterable[tuple[str, str]]

_SIGNATURE: Final = re.compile(r"sha256=([0-9a-f]{64})")
_GUID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_EVENT: Final = re.compile(r"[a-z0-9_]{1,64}")
_FORM: Final = "application/x-www-form-urlencoded"
_FIELDS: Final = 8
"""Maximum number of fields in a form. GitHub sends one."""
_PIECES: Final = re.compile(rb"(?:[^%]|%.{0,2}){1,4096}", re.DOTALL)

_REVIEWS: Final = frozenset("pull_request_review pull_request_review_comment pull_request_review_thread".split())
_THREADS: Final = frozenset("issues issue_comment pull_request".split()) | _REVIEWS
_CHECKS: Final = frozenset("check_run check_suite workflow_run".split())
_INSTALLATIONS: Final = frozenset("installation installation_repositories".split())
EVENTS: Final = _THREADS | _CHECKS | _INSTALLATIONS
"""Events that can matter to the bot."""


class BadSignature(Refused):
    """The delivery is not proven to come from GitHub."""


class Malformed(Refused):
    """The delivery comes from GitHub but does not match GitHub's documentation."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a delivery's headers state."""

    event: str
    guid: str
    """The same for every redelivery of one delivery."""
    is_form: bool = False
    """Whether the body is a form whose field `payload` holds the JSON, which is the default of repository webhooks.

    https://docs.github.com/en/rest/repos/webhooks#create-a-repository-webhook
    """


@dataclass(frozen=True, slots=True)
class Wake:
    """Which thread to check. Without a thread or a repository: every thread."""

    event: str
    action: str
    installation: int | None
    repository: RepositoryId | None
    owner: str
    name: str
    thread: ThreadNumber | None
    told: str
    """Key of the post that the event reports, or "" if it reports something else."""
    report: DeliveryReport


def verify_signature(secret: str, body: bytes, headers: Headers) -> None:
    """Raise BadSignature unless the raw body was signed with the secret (W1).

    Refuses an empty secret, a missing, repeated, or malformed header, and a SHA-1 signature alone.
    """
    signatures = _values(headers, "x-hub-signature-256")
    match = _SIGNATURE.fullmatch(signatures[0]) if len(signatures) == 1 else None
    if not secret or match is None:
        raise BadSignature("the delivery is not signed", fix="set the same webhook secret here and on GitHub")
    expected = hmac.digest(secret.encode(), body, "sha256").hex()
    if not hmac.compare_digest(expected, match.group(1)):
        raise BadSignature("the delivery's signature is wrong", fix="set the same webhook secret here and on GitHub")


def envelope(headers: Headers) -> Envelope:
    """Return a delivery's event, guid, and content type.

    Raises Malformed if the event or guid is missing, or if any of the three is repeated or malformed.
    """
    headers = tuple(headers)
    events, guids = _values(headers, "x-github-event"), _values(headers, "x-github-delivery")
    if len(events) != 1 or len(guids) != 1 or not _EVENT.fullmatch(events[0]) or not _GUID.fullmatch(guids[0]):
        raise Malformed("the delivery does not name its event and id")
    types = [value.partition(";")[0].strip().lower() for value in _values(headers, "content-type")]
    if len(types) > 1:
        raise Malformed("the delivery names several content types")
    return Envelope(events[0], guids[0], is_form=types == [_FORM])


def parse_delivery(event: str, body: bytes, *, is_form: bool = False) -> Wake | None:
    """Return what a delivery means to the bot, or None if it means nothing. `is_form` is the envelope's.

    Raises Malformed if the body does not match GitHub's documentation.
    """
    if event not in EVENTS:
        return None
    text = _form_payload(body) if is_form else body
    payload, invalid = _payload_model()
    try:
        return _wake(event, payload.model_validate_json(text))
    except invalid as error:
        raise Malformed(f"the {event} delivery has an unexpected form: {error.errors()[0]['msg']}") from None


@cache
def _payload_model() -> "tuple[type[Payload], type[ValidationError]]":
    """Return the model of payloads and the error that it raises. They are imported when the first delivery arrives."""
    from pydantic import ValidationError

    return Payload, ValidationError


def _form_payload(body: bytes) -> bytes:
    """Return the value of the only field `payload` of a form. Raises Malformed if there is none, or more than one.

    urllib.parse.parse_qs would need 75 times the body's size in memory.
    """
    fields = [field.partition(b"=") for field in body.split(b"&", _FIELDS)]
    payloads = [value for name, _, value in fields if unquote_to_bytes(name[:64]) == b"payload"]
    if len(fields) > _FIELDS or len(payloads) != 1:
        raise Malformed("the form does not have one field named payload")
    pieces = (piece.group() for piece in _PIECES.finditer(payloads[0]))
    return b"".join(unquote_to_bytes(piece.replace(b"+", b" ")) for piece in pieces)


def _wake(event: str, payload: "Payload") -> Wake | None:
    """Return the thread to check; None for a check that is not completed, or that names no pull request."""
    thread, repository = _thread(event, payload), payload.repository
    if event in _CHECKS and (thread is None or payload.action != "completed"):
        return None
    if event in _THREADS and (thread is None or repository is None):
        raise Malformed(f"the {event} delivery names no thread")
    return Wake(
        event=event,
        action=payload.action,
        installation=payload.installation.id if payload.installation else None,
        repository=RepositoryId(repository.id) if repository else None,
        owner=repository.owner.login if repository else "",
        name=repository.name if repository else "",
        thread=ThreadNumber(thread) if thread else None,
        told=_turn_key(event, payload),
        report=_check_report(payload) if event in _CHECKS else _thread_report(event, payload),
    )


def _check_report(payload: "Payload") -> DeliveryReport:
    """Return the report of a check, which matters only on the bot's own branches. Its sender only pushed a commit."""
    checked = payload.check_run or payload.check_suite or payload.workflow_run
    pulls = checked.pull_requests if checked else ()
    return DeliveryReport(None, is_relevant=any(pull is not None and is_thread_branch(pull.head.ref) for pull in pulls))


def _thread_report(event: str, payload: "Payload") -> DeliveryReport:
    """Return the report of a thread's event. A merge is relevant, because it may change the configuration."""
    subject = payload.issue or payload.pull_request
    parts: list[Subject | Written | None] = [subject, payload.comment, payload.review]
    assignees, labels = (subject.assignees or (), subject.labels or ()) if subject else ((), ())
    accounts = [*(part.user for part in parts if part), *assignees]
    is_labeled = any(label is not None and label.name == LABEL for label in labels)
    return DeliveryReport(
        doer=payload.sender.id if payload.sender and event in _THREADS else None,
        people=frozenset(account.id for account in accounts if account),
        texts=tuple(filter(None, (subject.title if subject else None, *(part.body for part in parts if part)))),
        is_relevant=is_labeled or bool(subject and subject.merged),
    )


def _turn_key(event: str, payload: "Payload") -> str:
    """Return the key that `Threads` gives the reported post, perhaps as an alias; "" if none is reported."""
    match event, payload.action:
        case "issues" | "pull_request", "opened":
            return "issue"
        case "issue_comment", "created" if payload.comment:
            return f"comment-{payload.comment.id}"
        case "pull_request_review", "submitted" if payload.review and payload.review.says_something:
            return f"review-{payload.review.id}"
        case "pull_request_review_comment", "created" if payload.comment:
            return f"review-comment-{payload.comment.id}"
        case _:
            return ""


def _thread(event: str, payload: "Payload") -> int | None:
    subject = payload.issue or payload.pull_request
    if event in _THREADS:
        return subject.number if subject else None
    checked = payload.check_run or payload.check_suite or payload.workflow_run
    return next((pull.number for pull in checked.pull_requests if pull), None) if checked else None


def _values(headers: Headers, name: str) -> list[str]:
    return [value for key, value in headers if key.lower() == name]

"""Pure functions on webhook deliveries: whether one is GitHub's (W1), and which thread it names.

A delivery is a wake-up and never evidence: all that is taken from it is which thread to check, and whether a check
could find anything (W2).
https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from bot.core.errors import Refused
from bot.core.names import RepositoryId, ThreadNumber, is_thread_branch
from bot.github.relevance import DeliveryReport
from bot.github.turns import LABEL

if TYPE_CHECKING:
    from pydantic import ValidationError

    from bot.github.payloads import Payload, Subject, Written

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
    """Return only if the raw body was signed with the secret. Raises BadSignature otherwise (W1).

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

    Raises Malformed.
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
    """Return the model of payloads and what it raises. They are imported when the first delivery arrives."""
    from pydantic import ValidationError

    from bot.github.payloads import Payload

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
    """Return the report of a thread's event. A merge is relevant, because it may change what the bot listens to."""
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
    """Return the key of what somebody said, as a thread that is read has it, or ""."""
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
    """Return the number of the thread that an event is about, or None."""
    subject = payload.issue or payload.pull_request
    if event in _THREADS:
        return subject.number if subject else None
    checked = payload.check_run or payload.check_suite or payload.workflow_run
    return next((pull.number for pull in checked.pull_requests if pull), None) if checked else None


def _values(headers: Headers, name: str) -> list[str]:
    return [value for key, value in headers if key.lower() == name]

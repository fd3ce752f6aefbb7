"""What a session asks people while it waits, and what counts as the answer: one pure function, `find_reply` (L8, P7).

Rules
- A permission request is a question with three options, so that both are asked, ticked, and answered in one way.
- A tick counts if an eligible person made it and it is still there. Ticks of others neither answer nor block.
- An edit that changed more than boxes counts for nothing. While the comment shows another text, no tick counts.
- If there are several answers, the first one counts. What could not be looked up is no answer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from bot.core.codec import ALWAYS, WRITTEN
from bot.core.names import ToolUseId
from bot.core.turn import Actor, Role

ALL: Final = "That is all"
ALLOW, ALLOW_PLAN, DENY = "Allow once", "Allow for this plan", "Deny"


class AskKind(StrEnum):
    """What is asked for: an answer, or permission for the call that the session waits with."""

    QUESTION = "question"
    PERMISSION = "permission"


class Grant(StrEnum):
    ONCE = "once"
    PLAN = "plan"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Option:
    label: str
    description: Annotated[str, ALWAYS] = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `several` allows any number of options; otherwise exactly one."""

    text: str
    options: tuple[Option, ...]
    header: Annotated[str, ALWAYS] = ""
    several: Annotated[bool, ALWAYS] = False


@dataclass(frozen=True, slots=True)
class Asking:
    """What a session waits for: the pending call and the questions about it."""

    matter: AskKind
    call: ToolUseId
    questions: tuple[Question, ...]
    tool: Annotated[str, WRITTEN] = ""
    subject: Annotated[str, WRITTEN] = ""
    """The command or path of a permission request, verbatim."""
    why: Annotated[str, WRITTEN] = ""
    meaning: Annotated[str, WRITTEN] = ""
    """What the call would do, in the words of a small model; "" if it said nothing. It decides nothing (M11)."""

    @property
    def closed_by_box(self) -> bool:
        """Whether a last box marks the choice as complete, which is needed if a question allows several options."""
        return any(question.several for question in self.questions)

    @property
    def boxes(self) -> int:
        """The number of boxes, including the last one."""
        return sum(len(question.options) for question in self.questions) + self.closed_by_box


def permission(call: ToolUseId, tool: str, subject: str, why: str) -> Asking:
    options = (Option(ALLOW), Option(ALLOW_PLAN, "exactly this again, without asking"), Option(DENY))
    return Asking(AskKind.PERMISSION, call, (Question("May I?", options),), tool, subject, why)


# --- one live reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Author:
    """A person, with what was looked up about them in the same reading."""

    actor: Actor
    role: Role | None
    listed: bool = False


@dataclass(frozen=True, slots=True)
class BoxEdit:
    """One edit of the question: the ticked boxes before and after it; None if another text was shown."""

    by: Author
    at: datetime
    before: frozenset[int] | None
    after: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class AnswerComment:
    """A visible comment that is newer than the question."""

    key: str
    by: Author
    at: datetime
    text: str
    edited: bool = False
    by_mail: bool = False
    editors: tuple[int, ...] = ()
    """Numeric ids of its author and of everybody who edited it."""


@dataclass(frozen=True, slots=True)
class AnswerSnapshot:
    """One live reading of everything that can be an answer."""

    edits: tuple[BoxEdit, ...] = ()
    words: tuple[AnswerComment, ...] = ()
    ticked: frozenset[int] | None = frozenset()
    """The boxes that are ticked now; None if the comment shows another text, is hidden, or is gone."""
    open: bool = True
    complete: bool = True
    """Whether every look-up succeeded and every page was read."""
    gone: bool = False
    """Whether the comment no longer exists."""


class IgnoreReason(StrEnum):
    """Why something that looks like an answer is not one. core/reply_text.py has the sentence for each."""

    MAY_NOT = "may_not"
    CHANGED = "changed"
    EDITED = "edited"
    BY_MAIL = "by_mail"
    ONE_ONLY = "one_only"


@dataclass(frozen=True, slots=True)
class IgnoredAnswer:
    why: IgnoreReason
    actor: Actor | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer that counts: chosen options for each question, or words; for a permission request, the grant."""

    by: Actor
    at: datetime
    chosen: tuple[tuple[str, ...], ...] = ()
    words: str = ""
    grant: Grant | None = None
    turn: str = ""
    """The key of the comment that carried the words."""
    edited: bool = False
    """Whether that comment was ever edited or was sent by mail. Its words may then be somebody else's."""
    editors: tuple[int, ...] = ()
    """Numeric ids of those who may have written the words."""


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """Who may answer. `steers`: the answer steers approved work, so comments that were edited or sent by mail do not
    count. By mail nobody grants a permission either."""

    may: Callable[[Author], bool]
    steers: bool


def find_reply(
    asking: Asking, answers: AnswerSnapshot, rules: AnswerRules
) -> tuple[Reply | None, tuple[IgnoredAnswer, ...]]:
    """Return the first answer that counts; or None, with the answers that did not count and why."""
    if not answers.complete or not answers.open:
        return None, ()
    by_boxes, findings = _ticks(asking, answers, rules)
    replies = [*([by_boxes] if by_boxes else []), *_answer_comments(asking, answers, rules)]
    if replies:
        return min(replies, key=lambda reply: reply.at), ()
    meant = (said for said in answers.words if rules.may(said.by) and _is_meant_as_answer(asking, said))
    ignored = [IgnoredAnswer(why, said.by.actor) for said in meant if (why := _objection(asking, said, rules))]
    return None, tuple(dict.fromkeys([*findings, *ignored]))


def grant_of(text: str) -> tuple[Grant, str] | None:
    """Return the grant in a comment and the words after it; None if the comment neither allows nor denies."""
    head, _, words = text.strip().partition(" ")
    match head.lower().rstrip(".,:!\n"):
        case "allow" if words.lower().strip(" .!") in {"", "once"}:
            return Grant.ONCE, ""
        case "allow" if words.lower().strip(" .!") == "for this plan":
            return Grant.PLAN, ""
        case "deny":
            return Grant.NO, words.strip()
        case _:
            return None


def _ticks(asking: Asking, answers: AnswerSnapshot, rules: AnswerRules) -> tuple[Reply | None, list[IgnoredAnswer]]:
    """Return the answer given by the boxes, or None if there is none yet, and the edits that did not count."""
    on: dict[int, BoxEdit] = {}
    findings: list[IgnoredAnswer] = []
    for edit in answers.edits:
        if edit.before is None or edit.after is None:
            findings.append(IgnoredAnswer(IgnoreReason.CHANGED, edit.by.actor))
        elif not rules.may(edit.by):
            findings += [IgnoredAnswer(IgnoreReason.MAY_NOT, edit.by.actor)] if edit.after - edit.before else []
        else:
            on |= dict.fromkeys(edit.after - edit.before, edit)
            on = {box: tick for box, tick in on.items() if box not in edit.before - edit.after}
    if answers.ticked is None or not on.keys() <= answers.ticked:
        return None, findings
    chosen = list(_chosen_labels(asking, frozenset(on)))
    if any(len(labels) > 1 and not asking.questions[at].several for at, labels in enumerate(chosen)):
        return None, [*findings, IgnoredAnswer(IgnoreReason.ONE_ONLY)]
    is_complete = asking.boxes - 1 in on if asking.closed_by_box else all(chosen)
    if not is_complete:
        return None, findings
    last = max(on.values(), key=lambda edit: edit.at)
    return Reply(last.by.actor, last.at, tuple(chosen), grant=_granted_reply(asking, chosen)), findings


def _chosen_labels(asking: Asking, on: frozenset[int]) -> Iterator[tuple[str, ...]]:
    first = 0
    for question in asking.questions:
        yield tuple(option.label for at, option in enumerate(question.options, first) if at in on)
        first += len(question.options)


def _granted_reply(asking: Asking, chosen: list[tuple[str, ...]]) -> Grant | None:
    if asking.matter is not AskKind.PERMISSION:
        return None
    return {ALLOW: Grant.ONCE, ALLOW_PLAN: Grant.PLAN, DENY: Grant.NO}[chosen[0][0]]


def _answer_comments(asking: Asking, answers: AnswerSnapshot, rules: AnswerRules) -> Iterator[Reply]:
    for comment in answers.words:
        if not rules.may(comment.by) or _objection(asking, comment, rules):
            continue
        if asking.matter is AskKind.QUESTION:
            edited = comment.edited or comment.by_mail
            reply = Reply(comment.by.actor, comment.at, words=comment.text, turn=comment.key, edited=edited)
            yield replace(reply, editors=comment.editors)
        elif (spoken := grant_of(comment.text)) is not None:
            yield Reply(comment.by.actor, comment.at, words=spoken[1], grant=spoken[0], turn=comment.key)


def _objection(asking: Asking, comment: AnswerComment, rules: AnswerRules) -> IgnoreReason | None:
    """Return why a comment of somebody who may answer cannot be the answer, or None if it can."""
    if rules.steers and comment.edited:
        return IgnoreReason.EDITED
    decides = rules.steers or asking.matter is AskKind.PERMISSION
    return IgnoreReason.BY_MAIL if decides and comment.by_mail else None


def _is_meant_as_answer(asking: Asking, comment: AnswerComment) -> bool:
    """Return whether a comment would be an answer if nothing spoke against it."""
    begins = comment.by_mail and comment.text.lower().startswith(("allow", "deny"))
    return begins or asking.matter is AskKind.QUESTION or grant_of(comment.text) is not None

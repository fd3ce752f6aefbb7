"""Texts of questions to people, and of answers to the session. Pure, beside core/comment.py."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.comment import NAMED, attribution, how_to_retry
from bot.core.markdown.elements import code, fenced_block, first_items
from bot.core.markdown.inert import inert_markdown
from bot.core.question import ALL, Asking, AskKind, Grant, IgnoredAnswer, IgnoreReason, Option, Question, Reply

_NOT_COUNTED: Final[Mapping[IgnoreReason, str]] = MappingProxyType(
    {
        IgnoreReason.MAY_NOT: "ticked a box, but may not answer this: somebody who may must untick and tick it",
        IgnoreReason.CHANGED: "changed more of my question than its boxes, so that edit doesn't count: "
        "untick the boxes and tick them again",
        IgnoreReason.EDITED: "the answer was edited, so it doesn't count: answer in a new comment",
        IgnoreReason.BY_MAIL: "the answer was sent by mail, so it doesn't count: tick a box or comment on GitHub",
        IgnoreReason.ONE_ONLY: "a question that takes one answer has several ticked boxes: leave one",
    }
)
WHO_MAY_STEER: Final = "people who may approve"
WHO_MAY_ASK: Final = "people who may ask me"


def question_text(asking: Asking, who: str) -> str:
    """Render what a session asks. Its boxes are the last ones in the text, in the order of the options.

    The same question gives the same text in every version: threads in flight compare it with what GitHub shows.
    """
    if asking.matter is AskKind.PERMISSION:
        about = fenced_block(with_visible_codepoints(asking.subject))
        means = f"\n\nWhat it does, in a model's words: {_inert_label(asking.meaning)}" if asking.meaning else ""
        head = f"## ⏸ May I use {code(asking.tool)}?\n\n{about}{means}\n\nWhy I ask: {_inert_label(asking.why)}."
        words = "`allow`, `allow for this plan` or `deny WHY`"
        how = f"Tick one box, or comment {words}. What counts is what {who} say; the work waits until then."
    else:
        head = "## ⏸ I have a question"
        how = f"{_how_to_choose(asking)} Or answer in a comment, in your own words. What counts is what {who} say."
    questions = [_question(number, question, asking) for number, question in enumerate(asking.questions, 1)]
    last = [f"- [ ] {ALL}"] if asking.closed_by_box else []
    return "\n\n".join([head, how, *questions, *last]) + "\n"


def not_counted(findings: Sequence[IgnoredAnswer]) -> str:
    """Render why something that looks like an answer does not count."""
    clauses = [attribution(finding.actor) + _NOT_COUNTED[finding.why] for finding in findings]
    return f"I'm still waiting for an answer. {'; '.join(first_items(clauses, NAMED))}."


def question_expired(days: float, mention: str) -> str:
    """Render that nobody answered in time."""
    return f"Nobody answered within {days:g} days, so I stopped waiting. Use {how_to_retry(mention)} to ask again."


def reply_text(asking: Asking, reply: Reply) -> str:
    """Return an answer as the model receives it: the result of the call that waited."""
    who = f"@{reply.by.login}"
    if reply.grant is Grant.NO:
        return f"Denied by {who}" + (f", who says: {reply.words}" if reply.words else ". Do it another way, or stop.")
    if reply.grant is not None:
        return f"Allowed by {who}."
    if reply.words:
        return f"{who} answered in words: {reply.words}"
    rows = (
        f'"{question.text}": {", ".join(labels) or "nothing chosen: decide yourself"}'
        for question, labels in zip(asking.questions, reply.chosen, strict=True)
    )
    return f"{who} answered.\n" + "\n".join(rows)


def _question(number: int, question: Question, asking: Asking) -> str:
    label = f"**{number}. {_inert_label(question.header)}** " if asking.matter is AskKind.QUESTION else ""
    hint = " *(choose any)*" if question.several else ""
    return "\n".join([f"{label}{_inert_label(question.text)}{hint}\n", *map(_option, question.options)])


def _option(option: Option) -> str:
    return f"- [ ] {_inert_label(option.label)}" + (
        f": {_inert_label(option.description)}" if option.description else ""
    )


def _how_to_choose(asking: Asking) -> str:
    if asking.closed_by_box:
        return f"Tick what you choose, then the last box, {ALL!r}."
    return "Tick one box of each question." if len(asking.questions) > 1 else "Tick one box."


def _inert_label(text: str) -> str:
    """Return the model's text as one line that is inert where it is posted (X2)."""
    line = " ".join(text.split())
    inert = inert_markdown(line).strip()
    return inert if "\n" not in inert else code(line)

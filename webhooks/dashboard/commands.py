"""The buttons of a thread's page: each posts a command as a comment, in the person's name, with the person's own token.

Nothing here approves anything. The gate reads the comment on GitHub like any other, looks its author's role up, and
compares the digest (core/approval.py). The form carries the digest that the page showed, so that a person who looks at
an older plan is shown the difference instead of deciding on a plan that they have not seen (PR5).
"""

from collections.abc import Mapping
from typing import Final

from fastapi import Request

from bot.core.codepoints import with_visible_codepoints
from bot.core.command import Verb
from bot.core.gate import Stage
from bot.core.lines import shorten_line
from bot.core.names import ThreadAddress
from bot.service.overview.views import ThreadDetail
from webhooks.dashboard.pages import Answer, Page, Pages
from webhooks.dashboard.thread_pages import thread_values
from webhooks.dashboard.visits import NotAllowed, NotFound, Visit

COMMANDS: Final = frozenset({Verb.APPROVE, Verb.REJECT, Verb.STOP, Verb.RETRY})
REASON_LENGTH: Final = 500


def add_commands(pages: Pages) -> None:
    """Add the address that the buttons post to."""
    board = pages.dashboard

    async def command(visit: Visit, request: Request, form: Mapping[str, str]) -> Answer:
        address = await board.address(visit, request)
        detail = await board.reading.detail(address)
        verb = form.get("verb", "")
        if verb not in COMMANDS or visit.session is None:
            raise NotFound
        if not visit.may_act(address.repository):
            raise NotAllowed
        if is_stale(detail, Verb(verb), form.get("digest", "")):
            return stale_page(visit, address, detail, form.get("digest", ""))
        session = visit.session
        command_key = (str(address.repository), str(address.number), verb, form.get("position", ""))
        async with session.command_lock:
            if command_key not in session.posted:
                mention = await board.reading.mention(address)
                text = comment_text(mention, Verb(verb), form.get("digest", ""), form.get("reason", ""))
                session.remember(command_key, await session.viewer.comment(address, text))
        return f"{request.scope['path']}?posted={verb}"

    pages.accept("/threads/{owner}/{name}/{number}", command)


def is_stale(detail: ThreadDetail, verb: Verb, digest: str) -> bool:
    """Return whether a command is about a plan that was superseded, or a decision about one that no longer waits."""
    decides = verb in {Verb.APPROVE, Verb.REJECT}
    waits = detail.summary.stage is Stage.AWAITING_APPROVAL and bool(digest)
    return digest != (detail.summary.plan_digest or "") or (decides and not waits)


def stale_page(visit: Visit, address: ThreadAddress, detail: ThreadDetail, digest: str) -> Page:
    """Return the page for a command that came too late: the plan that the person saw beside the present one."""
    seen = next((version for version in detail.plans if version.digest == digest), None)
    values = thread_values(visit, address, detail, {}) | {"seen": seen}
    return Page("stale.html", "This page was out of date", values, 409)


def comment_text(mention: str, verb: Verb, digest: str, reason: str) -> str:
    """Return the comment of a command. Its first line is the command; a reason is one line that can hold no other."""
    match verb:
        case Verb.APPROVE:
            line = f"{mention} approve {digest}"
        case Verb.REJECT:
            why = shorten_line(with_visible_codepoints(" ".join(reason.split())), REASON_LENGTH)
            line = f"{mention} reject {why}".rstrip()
        case _:
            line = f"{mention} {verb}"
    return f"{line}\n\nSent from the Plangate dashboard."

"""The tracking issues of scheduled tasks: created once, found by their markers, kept up to date by edits (MT2).

https://docs.github.com/en/rest/issues/issues
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from bot.core import marker
from bot.core.actor import Actor, ActorKind
from bot.core.errors import Transient
from bot.core.maintenance import Tick
from bot.core.marker import Key
from bot.core.names import ThreadNumber
from bot.core.tracking_text import ticked_labels, with_warning
from bot.github.client import GitHubClient, Json
from bot.github.comments import shows_same_text
from bot.github.edit_history import EDIT_FIELDS, Version, versions
from bot.github.errors import Missing
from bot.github.people import WHO
from bot.github.repository import Address

LABEL: Final = "plangate: maintenance"
"""Label of the issues. People can list them by it; it also keeps the search for a lost one short."""
_NO_THREAD: Final = ThreadNumber(0)
_KIND: Final = "task"

_TEXT: Final = f"fragment text on Issue {{ {EDIT_FIELDS} }} {WHO}"


@dataclass(frozen=True, slots=True)
class IssueText:
    """What an issue shows."""

    body: str
    ticks: tuple[Tick, ...] = ()
    """The boxes that people ticked and that are still ticked, oldest first, each with who did it."""


@dataclass(frozen=True, slots=True)
class TrackingIssues:
    """The tracking issues of one repository. They are written by the account `bot`, and carry a MAC of `key`."""

    client: GitHubClient
    address: Address
    bot: Callable[[], Awaitable[Actor]]
    """Looks the account up. Not called where no issue is searched for and no box is ticked."""
    key: Key

    async def open(self, task: str, title: str, body: str) -> ThreadNumber:
        """Return the number of a task's issue. Creates it unless one with its marker exists.

        Two processes that call this at once may both create one. Both return the older one.
        """
        if (number := await self._find(task)) is not None:
            return number
        text = f"{self.client.redactor.redact(body).rstrip()}\n\n{self._marker(task)}"
        created = await self.client.post(
            f"{self.address.path}/issues", {"title": title, "body": text, "labels": [LABEL]}
        )
        return await self._find(task) or ThreadNumber(int(created["number"]))

    async def show(self, number: ThreadNumber, task: str, body: str, *, shown: str) -> None:
        """Set an issue's text, and untick its boxes. Does nothing if `shown`, the text that was read, is the same."""
        text = f"{self.client.redactor.redact(body).rstrip()}\n\n{self._marker(task)}"
        path = f"{self.address.path}/issues/{number}"
        if shows_same_text(shown, text) and not ticked_labels(shown):
            return
        await self.client.change(path, {"body": text})
        back = await self.client.read_until(partial(self._body, path), partial(shows_same_text, text))
        if not shows_same_text(back, text):
            raise Transient("GitHub shows a different text than was set", where=path, fix="check the issue")

    async def read(self, number: ThreadNumber) -> IssueText:
        """Return what an issue shows now, with the ticks of people, by one query. Raises Missing if it is gone."""
        text = (await self.read_all([number])).get(number)
        if text is None:
            where = f"{self.address.path}/issues/{number}"
            raise Missing("the tracking issue was deleted or moved", where=where, fix="give the task another name")
        return text

    async def read_all(self, numbers: Sequence[ThreadNumber]) -> dict[ThreadNumber, IssueText]:
        """Return what these issues show now, by one query; those that are gone are left out.

        A box whose history GitHub no longer has in full is left out, because who ticked it is unknown.
        """
        if not numbers:
            return {}
        fields = " ".join(f"issue{number}: issue(number: {number:d}) {{ ...text }}" for number in numbers)
        query = f"query ($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {fields} }} }}"
        data = await self.client.graphql(f"{query} {_TEXT}", self.address.variables, partial=True)
        nodes = data["repository"] or {}
        issues = {number: nodes.get(f"issue{number}") for number in numbers}
        return {number: await self._parse(issue) for number, issue in issues.items() if issue}

    async def _parse(self, issue: Json) -> IssueText:
        body = str(issue["body"] or "")
        past = versions(issue, "")  # its first text is unknown here, and had no box ticked
        box_ticks = [_tick(past, label) for label in dict.fromkeys(ticked_labels(body))]
        ticks = [tick for tick in box_ticks if tick is not None]
        by_people = [tick for tick in ticks if tick.by.id != (await self.bot()).id]
        return IssueText(body, tuple(sorted(by_people, key=lambda tick: tick.at)))

    async def warn(self, number: ThreadNumber, warning: str) -> None:
        """Show above an issue's text why its task does not run, unless it does so already. "" removes the warning."""
        path = f"{self.address.path}/issues/{number}"
        current = await self._body(path)
        text = with_warning(current, self.client.redactor.redact(warning))
        if not shows_same_text(current, text):
            await self.client.change(path, {"body": text})

    async def _body(self, path: str) -> str:
        return str((await self.client.get(path)).get("body") or "")

    async def _find(self, task: str) -> ThreadNumber | None:
        """Return the oldest issue of the bot with the task's marker, open or closed."""
        query, bot = {"labels": LABEL, "state": "all", "direction": "asc"}, await self.bot()
        async for issue in self.client.pages(f"{self.address.path}/issues", query):
            if (issue.get("user") or {}).get("id") == bot.id and self._is_of(task, str(issue.get("body") or "")):
                return ThreadNumber(int(issue["number"]))
        return None

    def _is_of(self, task: str, body: str) -> bool:
        mark = marker.parse(body)
        if mark is None or not mark.holds(self.key.mac):
            return False
        return (mark.kind, mark.digest) == (_KIND, marker.digest_of(task))

    def _marker(self, task: str) -> str:
        return marker.make(_KIND, _NO_THREAD, 0, digest=marker.digest_of(task), key=self.key)


def _tick(past: Sequence[Version], label: str) -> Tick | None:
    """Return who ticked a box that is ticked now, or None if that edit is unknown or was not made by a person."""
    ticked = [version.text is not None and label in ticked_labels(version.text) for version in past]
    since = len(ticked) - ticked[::-1].index(False) if False in ticked else 0
    if not 0 < since < len(past) or past[since - 1].text is None or past[since].by.kind is not ActorKind.USER:
        return None
    return Tick(label, past[since].by, past[since].at)

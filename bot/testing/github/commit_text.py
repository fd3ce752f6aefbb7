"""What a git commit says, read from its object: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_PERSON = re.compile(
    r"(?P<name>.*?) ?<(?P<email>[^>]*)> (?P<seconds>\d+) (?P<sign>[+-])(?P<hours>\d\d)(?P<minutes>\d\d)"
)


@dataclass(frozen=True, slots=True)
class CommitText:
    """A commit's tree, parents, people, and message without the line breaks at its end."""

    tree: str
    parents: tuple[str, ...]
    author: dict[str, str]
    """`name`, `email`, and `date` (ISO 8601); so of the committer."""
    committer: dict[str, str]
    message: str

    @classmethod
    def parse(cls, text: str) -> CommitText:
        """Read the content of a commit's object."""
        head, _, message = text.partition("\n\n")
        rows = [line.partition(" ")[::2] for line in head.split("\n")]
        facts = dict(reversed(rows))  # a line of a signature begins with a space, and never has one of these names
        parents = tuple(value for name, value in rows if name == "parent")
        people = _person(facts["author"]), _person(facts["committer"])
        return cls(facts["tree"], parents, *people, message.rstrip("\n"))


def _person(text: str) -> dict[str, str]:
    """Return a person and the time in the format of the API."""
    found = _PERSON.fullmatch(text)
    if found is None:
        raise ValueError(f"no person and time: {text}")
    shift = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"])) * int(f"{found['sign']}1")
    when = datetime.fromtimestamp(int(found["seconds"]), timezone(shift))
    return {"name": found["name"], "email": found["email"], "date": when.isoformat()}

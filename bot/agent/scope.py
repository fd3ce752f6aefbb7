"""Watches which paths a session of approved work touches that its plan does not name (K5).

Rules: the result of the call that touched such a path says so, once per path, and the session may continue. The
publisher decides by the finished tree what is published. A command's paths are those that git reports as changed after
it.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bot.agent.permissions import rule_paths
from bot.agent.permissions.tool_gate import CallKind
from bot.core.errors import PlangateError
from bot.core.markdown.elements import code
from bot.core.transcript import Json, Line, notes_of
from bot.ports import Toolhost

NOTE: Final = "outside"
"""Kind of the transcript note with the paths that were reported to its session."""
SHOWN: Final = 20
_STATUS: Final = "git -c core.quotePath=false status --porcelain=v1 --no-renames --untracked-files=all"
_STATUS_MS: Final = 10_000
_ENTRY: Final = re.compile(r"^[ MTADUC?]{2} (.+)$", re.MULTILINE)
"""A line of git-status(1), short format."""


@dataclass(slots=True)
class ScopeWatch:
    """The paths that a plan reaches, and the other paths that were reported to its session."""

    reaches: Callable[[str], bool]
    reported: set[str] = field(default_factory=set)

    async def new_paths(self, host: Toolhost, kind: CallKind, tool_input: Json) -> list[str]:
        """Return the paths outside the plan that a call touched and that were not returned before.

        `tool_input` names its paths relative to the checkout.
        """
        match kind:
            case CallKind.EDIT:
                paths = [rule_paths.target_path(tool_input)]
            case CallKind.COMMAND:
                paths = await _changed_paths(host)
            case _:
                return []
        return self._add(paths)

    def for_subagent(self) -> "ScopeWatch":
        """Return a watch that starts with the paths reported here."""
        return ScopeWatch(self.reaches, set(self.reported))

    def recall(self, lines: Iterable[Line]) -> None:
        """Add the paths that a transcript says were reported to its session."""
        self.reported.update(path for note in notes_of(lines, NOTE) for path in note["paths"])

    def _add(self, touched: Iterable[str]) -> list[str]:
        inside = (path for path in touched if path and not path.startswith(("/", "../")))
        new = [path for path in dict.fromkeys(inside) if path not in self.reported and not self.reaches(path)]
        self.reported.update(new)
        return new


def outside_notice(paths: list[str]) -> str:
    """Return the notice to a session about paths that its plan does not name."""
    if len(paths) == 1:
        which = f"{code(paths[0])} is outside the approved plan's files. Revert it"
    else:
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        which = f"{', '.join(map(code, paths[:SHOWN]))}{more} are outside the approved plan's files. Revert them"
    return f"({which}, or go on knowing that the change needs another approval.)"


async def _changed_paths(host: Toolhost) -> list[str]:
    """List the paths that git reports as changed in the checkout, without ignored ones; none if git fails."""
    try:
        output = await host.call("Bash", {"command": _STATUS, "timeout": _STATUS_MS})
    except PlangateError:
        return []
    paths = [] if output.is_error else _ENTRY.findall(output.text)
    return [path.strip('"') for path in paths]

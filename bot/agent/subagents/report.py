"""What sub-agents report: one report as its parent reads it (S11a), and the synthesis of several (S7, S8). Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, combinations, islice
from json import JSONDecoder
from typing import Final

from pydantic import BaseModel, ConfigDict

from bot.agent.dispatch import RESULT_LIMIT
from bot.agent.session_events import End, Ended
from bot.core.brief import as_data
from bot.core.errors import PlangateError
from bot.core.names import AgentId
from bot.core.transcript import Json, text_of, tool_calls
from bot.core.work import MergeResult
from bot.ports import ToolOutput

CALLS_SHOWN: Final = 20
CALL_CHARACTERS: Final = 200
NAMES_ROOM: Final = 10_000
DIFFS_ROOM: Final = 40_000
DIFFS_SHOWN: Final = 40
TOKEN_CHARACTERS: Final = 4
"""Approximate characters of a token, to bound the length of a text. Costs are computed from real usage (M12)."""


@dataclass(slots=True)
class SubagentReport:
    """What one sub-agent reports to its parent, as far as it is known."""

    agent: AgentId
    most_tokens: int | None
    """Limit of the agent's own text, in tokens; None for no limit."""
    ended: Ended | None = None
    """The end of its last session."""
    so_far: str = ""
    """What was done, in the harness's words, if there is no answer."""
    remark: str = ""
    """Note for the parent in addition to the answer."""
    denied: list[str] = field(default_factory=list)
    """Refusals of calls that its parent may ask people for."""
    plan: str = ""
    merge: MergeResult | None = None

    @property
    def end(self) -> Ended:
        """End of the last session. A sub-agent whose session has no end counts as failed."""
        return self.ended or Ended(self.agent, End.FAILED, "it ended without a report")

    @property
    def is_success(self) -> bool:
        return self.end.end is End.ANSWERED

    def describe_progress(self, history: Sequence[Json]) -> None:
        """Describe what a session has done so far: its calls, and its last words."""
        calls = [call for message in history for call in tool_calls(message)][-CALLS_SHOWN:]
        lines = [
            f"- {call['name']} {next(iter(call['input'].values()), '')}".rstrip()[:CALL_CHARACTERS] for call in calls
        ]
        words = [text for message in history if message["role"] == "assistant" and (text := text_of(message))]
        self.so_far = "\n".join([*(line[:CALL_CHARACTERS] for line in lines), *words[-1:]]) or "nothing"

    def mark_unmerged(self, error: PlangateError) -> None:
        """Turn the report into a failure because the changes could not be merged. Its own words are still passed on."""
        self.so_far = self.end.text
        self.ended = Ended(self.agent, End.FAILED, f"what it changed is lost: {error}")

    def tool_output(self) -> ToolOutput:
        """Return the report as the parent's tool result: data, with text that imitates the harness escaped (S11a)."""
        text = _cut(as_data(self.end.text), self.most_tokens)
        parts = [text] if self.is_success else [f"The sub-agent {self.agent} did not finish: {text}"]
        parts += [f"Note: {self.remark}."] if self.remark else []
        if self.so_far and not self.is_success:
            parts.append(f"What it did so far:\n{_cut(as_data(self.so_far), self.most_tokens)}")
        if self.denied:
            parts.append("It was denied this; ask for it yourself if it is needed:\n" + as_data("\n".join(self.denied)))
        if self.plan:
            parts.append(f"Its plan (nobody has approved it):\n{as_data(self.plan)}")
        text = with_merge_result(parts, self.merge)
        return ToolOutput(text, is_error=not self.is_success, details={"agent": self.agent})


def with_merge_result(parts: Sequence[str], merge: MergeResult | None) -> str:
    """Join an agent's text with the result of its merge. Every conflict is named, however long the text is."""
    merged = "" if merge is None else f"\n\n{_merge_text(merge)}"
    return _cut("\n\n".join(parts), (RESULT_LIMIT - len(merged)) // TOKEN_CHARACTERS - 100) + merged


def _cut(text: str, tokens: int | None) -> str:
    """Cut a text at about `tokens` tokens, with a note. None means no limit."""
    if tokens is None or len(text) <= tokens * TOKEN_CHARACTERS:
        return text
    return text[: tokens * TOKEN_CHARACTERS] + f"\n[cut: the limit of {tokens:,} tokens of report was reached]"


def _merge_text(merge: MergeResult) -> str:
    """Describe what was merged, and every conflict, with both sides as far as there is room."""
    paths = tuple(merge.conflicts)
    lines = [f"Merged into your checkout: {_path_list(merge.merged) or 'nothing'}."]
    for path in paths[:DIFFS_SHOWN]:
        diffs = _cut(as_data(merge.conflicts[path]), DIFFS_ROOM // min(len(paths), DIFFS_SHOWN) // TOKEN_CHARACTERS)
        outcome = "your side was kept. The sub-agent's change, then yours, as diffs"
        lines.append(f"CONFLICT in {as_data(path)}: {outcome}:\n{diffs}")
    if further := paths[DIFFS_SHOWN:]:
        lines.append(f"CONFLICT in {len(further)} more files, where your side was kept too: {_path_list(further)}.")
    return "\n".join(lines)


def _path_list(paths: Sequence[str]) -> str:
    """List as many paths as fit, and the number of those left out."""
    names = [as_data(path) for path in paths]
    fitting = sum(size <= NAMES_ROOM for size in accumulate(len(name) + 2 for name in names))
    more = f" and {len(names) - fitting:,} more" if fitting < len(names) else ""
    return ", ".join(names[:fitting]) + more


# --- Merges the reports of several agents into one (S7, S8) -----------------------------------------------------------
# Rules: only repeated statements are dropped; each statement keeps its authors; if two agents say different things
# about one topic, that is a contradiction, which is listed and never settled here; failed agents are named.

MOST_PAIRS: Final = 200
"""Most contradictions listed for one severity. Two long lists on one topic have millions."""


class Point(BaseModel):
    """One thing that is said of one topic."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    statement: str


class StructuredReport(BaseModel):
    """The one schema of all reports."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    summary: str
    findings: list[Point] = []
    errors: list[str] = []
    recommendations: list[Point] = []
    data: list[Point] = []
    metadata: list[Point] = []

    def points(self, section: str) -> list[Point]:
        """Return what one of SECTIONS contains. Errors are points without a topic."""
        if section == "errors":
            return [Point(topic="", statement=text) for text in self.errors]
        points: list[Point] = getattr(self, section)
        return points


SECTIONS: Final = ("findings", "errors", "recommendations", "data", "metadata")


def _object_schema(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_TEXT: Final[Json] = {"type": "string"}
_POINTS: Final[Json] = {"type": "array", "items": _object_schema(topic=_TEXT, statement=_TEXT)}
SCHEMA: Final = _object_schema(
    summary=_TEXT, **{name: {"type": "array", "items": _TEXT} if name == "errors" else _POINTS for name in SECTIONS}
)


class ContradictionSeverity(StrEnum):
    """How much a contradiction matters: facts high, findings medium, advice low."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class AgentStatement:
    """A point, and the agents that made it, in order."""

    topic: str
    statement: str
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    one: AgentStatement
    other: AgentStatement
    severity: ContradictionSeverity


@dataclass(frozen=True, slots=True)
class Synthesis:
    findings: tuple[AgentStatement, ...]
    errors: tuple[AgentStatement, ...]
    recommendations: tuple[AgentStatement, ...]
    data: tuple[AgentStatement, ...]
    metadata: tuple[AgentStatement, ...]
    summaries: tuple[AgentStatement, ...]
    contradictions: tuple[Contradiction, ...]
    failed: tuple[str, ...]
    reported: int
    duplicates: int

    @property
    def completeness(self) -> float:
        """Share of the agents that reported, from 0 to 1."""
        agents = self.reported + len(self.failed)
        return self.reported / agents if agents else 0.0

    @property
    def confidence(self) -> float:
        """Completeness, reduced by the share of contested points, from 0 to 1."""
        points = len(self.findings) + len(self.data) + len(self.recommendations)
        contested = {(claim.topic, claim.statement) for pair in self.contradictions for claim in (pair.one, pair.other)}
        return self.completeness * (1 - min(len(contested) / points, 1.0)) if points else self.completeness


def parse_report(text: str) -> StructuredReport:
    """Parse a report. Text after the JSON joins the summary. A text that does not fit the schema is the summary."""
    try:
        value, end = JSONDecoder().raw_decode(text)
        report = StructuredReport.model_validate(value)
    except (ValueError, RecursionError):
        return StructuredReport(summary=text.strip())
    return report.model_copy(update={"summary": "\n\n".join(filter(None, (report.summary, text[end:].strip())))})


def synthesize(reports: Sequence[tuple[str, StructuredReport | None]]) -> Synthesis:
    """Merge the agents' reports, in the order of the agents. None stands for an agent that failed."""
    reported = [(agent, report) for agent, report in reports if report is not None]
    said = {name: [(agent, point) for agent, report in reported for point in report.points(name)] for name in SECTIONS}
    merged = {name: _merge_points(points) for name, points in said.items()}
    return Synthesis(
        **merged,
        summaries=tuple(AgentStatement("", report.summary, (agent,)) for agent, report in reported if report.summary),
        contradictions=(
            *_contradictions(merged["data"], ContradictionSeverity.HIGH),
            *_contradictions(merged["findings"], ContradictionSeverity.MEDIUM),
            *_contradictions(merged["recommendations"], ContradictionSeverity.LOW),
        ),
        failed=tuple(agent for agent, report in reports if report is None),
        reported=len(reported),
        duplicates=sum(map(len, said.values())) - sum(map(len, merged.values())),
    )


def synthesis_text(synthesis: Synthesis) -> str:
    """Return a synthesis as text for a model: counts, failures, and contradictions first, then what is agreed."""
    parts = overview_lines(synthesis)
    for name in (*SECTIONS, "summaries"):
        if rows := getattr(synthesis, name):
            parts += [f"{name.capitalize()}:", *map(_line, rows)]
    return "\n".join(parts)


def overview_lines(synthesis: Synthesis) -> list[str]:
    """Return the lines that say who reported, who failed, and what is contested. No reported text begins a line."""
    agents = synthesis.reported + len(synthesis.failed)
    parts = [
        f"{synthesis.reported} of {agents} agents reported; completeness {synthesis.completeness:.0%}, "
        f"confidence {synthesis.confidence:.0%}; {synthesis.duplicates} said more than once."
    ]
    parts += [f"FAILED: {agent}" for agent in synthesis.failed]
    parts += [
        f"CONTRADICTION ({pair.severity}) on {pair.one.topic!r}: {', '.join(pair.one.agents)} says "
        f"{pair.one.statement!r}; {', '.join(pair.other.agents)} says {pair.other.statement!r}"
        for pair in synthesis.contradictions
    ]
    return parts


def _line(row: AgentStatement) -> str:
    topic = f"{row.topic}: " if row.topic else ""
    line = f"- {topic}{row.statement} ({', '.join(row.agents)})"
    return line.replace("\n", "\n  ")  # so that reported text cannot pass for a line of the head


def _merge_points(points: Sequence[tuple[str, Point]]) -> tuple[AgentStatement, ...]:
    merged: dict[tuple[str, str], AgentStatement] = {}
    for agent, point in points:
        key = (_plain(point.topic), _plain(point.statement))
        before = merged.get(key, AgentStatement(point.topic, point.statement, ()))
        merged[key] = AgentStatement(before.topic, before.statement, tuple(dict.fromkeys((*before.agents, agent))))
    return tuple(merged.values())


def _contradictions(rows: Sequence[AgentStatement], severity: ContradictionSeverity) -> tuple[Contradiction, ...]:
    """Return the pairs of statements by different agents on one topic. One agent may say several things about it."""
    topics: dict[str, list[AgentStatement]] = {}
    for row in rows:
        if _plain(row.topic):
            topics.setdefault(_plain(row.topic), []).append(row)
    pairs = (pair for group in topics.values() for pair in combinations(group, 2))
    contested = (pair for pair in pairs if not set(pair[0].agents) & set(pair[1].agents))
    return tuple(Contradiction(first, second, severity) for first, second in islice(contested, MOST_PAIRS))


def _plain(text: str) -> str:
    """Return a text without case, extra blanks, and a final full stop, for comparison."""
    return re.sub(r"\s+", " ", text).strip().rstrip(".").casefold()

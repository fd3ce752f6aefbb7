"""Synthesis: what several agents reported on one question, as one result (S7, S8). Pure.

Rules: nothing that was said is lost but what was said twice; who said it stays known; two who say different things of
one topic are a contradiction, which is listed and never settled here; who failed is named.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, islice
from json import JSONDecoder
from typing import Final

from pydantic import BaseModel, ConfigDict

from bot.core.transcript import Json

MOST_PAIRS: Final = 200
"""Contradictions of one severity: two long lists on one topic have millions."""


class Point(BaseModel):
    """One thing that is said of one topic."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    statement: str


class Report(BaseModel):
    """The one schema of all reports."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    summary: str
    findings: list[Point] = []
    errors: list[str] = []
    recommendations: list[Point] = []
    data: list[Point] = []
    metadata: list[Point] = []


_POINTS: Final[Json] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "statement": {"type": "string"}},
        "required": ["topic", "statement"],
        "additionalProperties": False,
    },
}
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "findings": _POINTS,
        "errors": {"type": "array", "items": {"type": "string"}},
        "recommendations": _POINTS,
        "data": _POINTS,
        "metadata": _POINTS,
    },
    "required": ["summary", "findings", "errors", "recommendations", "data", "metadata"],
    "additionalProperties": False,
}
"""What structured output is held to."""


class Severity(StrEnum):
    """How much a contradiction matters: facts, findings, advice."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class AgentStatement:
    """A point, and the agents that made it, in their order."""

    topic: str
    statement: str
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two who say different things of one topic."""

    one: AgentStatement
    other: AgentStatement
    severity: Severity


@dataclass(frozen=True, slots=True)
class Synthesis:
    """All reports, sorted."""

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
        """The part of the agents that reported, from 0 to 1."""
        asked = self.reported + len(self.failed)
        return self.reported / asked if asked else 0.0

    @property
    def confidence(self) -> float:
        """Completeness, less what is contested, from 0 to 1."""
        points = len(self.findings) + len(self.data) + len(self.recommendations)
        contested = {(each.topic, each.statement) for pair in self.contradictions for each in (pair.one, pair.other)}
        return self.completeness * (1 - min(len(contested) / points, 1.0)) if points else self.completeness


def read(text: str) -> Report:
    """Read a report; what stands after it belongs to its summary, and one that is not in the schema is a summary."""
    try:
        value, end = JSONDecoder().raw_decode(text)
        report = Report.model_validate(value)
    except (ValueError, RecursionError):
        return Report(summary=text.strip())
    return report.model_copy(update={"summary": "\n\n".join(filter(None, (report.summary, text[end:].strip())))})


def synthesize(reports: Sequence[tuple[str, Report | None]]) -> Synthesis:
    """Sort what agents reported, in the order of the agents; None stands for one that failed."""
    given = [(agent, report) for agent, report in reports if report is not None]
    findings = _merge_points([(agent, point) for agent, report in given for point in report.findings])
    errors = _merge_points(
        [(agent, Point(topic="", statement=text)) for agent, report in given for text in report.errors]
    )
    advice = _merge_points([(agent, point) for agent, report in given for point in report.recommendations])
    data = _merge_points([(agent, point) for agent, report in given for point in report.data])
    metadata = _merge_points([(agent, point) for agent, report in given for point in report.metadata])
    said = sum(
        len(part)
        for _, report in given
        for part in (report.findings, report.errors, report.recommendations, report.data, report.metadata)
    )
    kept = (findings, errors, advice, data, metadata)
    return Synthesis(
        *kept,
        summaries=tuple(AgentStatement("", report.summary, (agent,)) for agent, report in given if report.summary),
        contradictions=(
            *_contradictions(data, Severity.HIGH),
            *_contradictions(findings, Severity.MEDIUM),
            *_contradictions(advice, Severity.LOW),
        ),
        failed=tuple(agent for agent, report in reports if report is None),
        reported=len(given),
        duplicates=said - sum(map(len, kept)),
    )


def render(synthesis: Synthesis) -> str:
    """Write a synthesis as text for a model: counts first, contradictions and failures before what is agreed."""
    parts = head(synthesis)
    sections = {
        "Findings": synthesis.findings,
        "Errors": synthesis.errors,
        "Recommendations": synthesis.recommendations,
        "Data": synthesis.data,
        "Metadata": synthesis.metadata,
        "Summaries": synthesis.summaries,
    }
    for name, rows in sections.items():
        if rows:
            parts += [f"{name}:", *(_line(row) for row in rows)]
    return "\n".join(parts)


def head(synthesis: Synthesis) -> list[str]:
    """Give the lines that say who reported, who failed and what is contested; nothing that was said makes a line."""
    asked = synthesis.reported + len(synthesis.failed)
    parts = [
        f"{synthesis.reported} of {asked} agents reported; completeness {synthesis.completeness:.0%}, "
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
    said = f"- {topic}{row.statement} ({', '.join(row.agents)})"
    return said.replace("\n", "\n  ")  # so that it cannot pass for a line of the head


def _merge_points(points: Sequence[tuple[str, Point]]) -> tuple[AgentStatement, ...]:
    """Drop what was said before, and keep who said it."""
    kept: dict[tuple[str, str], AgentStatement] = {}
    for agent, point in points:
        key = (_plain(point.topic), _plain(point.statement))
        before = kept.get(key, AgentStatement(point.topic, point.statement, ()))
        kept[key] = AgentStatement(before.topic, before.statement, tuple(dict.fromkeys((*before.agents, agent))))
    return tuple(kept.values())


def _contradictions(rows: Sequence[AgentStatement], severity: Severity) -> tuple[Contradiction, ...]:
    """Pair what different agents say differently of one topic; one agent may say several things of it."""
    topics: dict[str, list[AgentStatement]] = {}
    for row in rows:
        if _plain(row.topic):
            topics.setdefault(_plain(row.topic), []).append(row)
    pairs = (pair for group in topics.values() for pair in combinations(group, 2))
    contested = (pair for pair in pairs if not set(pair[0].agents) & set(pair[1].agents))
    return tuple(Contradiction(one, other, severity) for one, other in islice(contested, MOST_PAIRS))


def _plain(text: str) -> str:
    """Compare texts without case, spaces and the full stop."""
    return re.sub(r"\s+", " ", text).strip().rstrip(".").casefold()

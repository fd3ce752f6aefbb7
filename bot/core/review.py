"""A review of a pull request as an answer: a summary, and findings at lines of its diff."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from bot.core.names import CommitId
from bot.core.transcript import Json


class Severity(StrEnum):
    """How much a finding matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """Something that a review found at one line of a file, as the file is at the reviewed commit."""

    path: str
    line: int
    severity: Severity
    body: str

    @property
    def text(self) -> str:
        """The finding as it is shown at its line."""
        return f"**{self.severity.capitalize()}:** {self.body}"

    @property
    def place(self) -> str:
        """Its place as a code span."""
        return f"`{' '.join(self.path.replace('`', chr(39)).split())}:{self.line}`"


@dataclass(frozen=True, slots=True)
class Review:
    """What a session has to say about a pull request. It never approves, and never requests changes."""

    summary: str
    findings: tuple[ReviewFinding, ...]
    commit: CommitId
    """The head that was reviewed: the lines are those of this commit."""

    @property
    def text(self) -> str:
        """The whole review as one text."""
        return body_text(self.summary, self.findings)

    def to_json(self) -> Json:
        """Return the review as the journal holds it."""
        findings = [
            {"path": finding.path, "line": finding.line, "severity": str(finding.severity), "body": finding.body}
            for finding in self.findings
        ]
        return {"summary": self.summary, "findings": findings, "commit": self.commit}

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read what `to_json` wrote."""
        findings = (
            ReviewFinding(finding["path"], finding["line"], Severity(finding["severity"]), finding["body"])
            for finding in value["findings"]
        )
        return cls(value["summary"], tuple(findings), CommitId(value["commit"]))


def body_text(summary: str, findings: Iterable[ReviewFinding]) -> str:
    """Return a summary followed by the findings that are not shown at their lines."""
    return "\n\n".join((summary, *(f"{finding.place}\n{finding.text}" for finding in findings)))

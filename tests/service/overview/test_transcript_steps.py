"""What people see of a stored transcript, step by step."""

from datetime import UTC, datetime
from typing import Any

from bot.core.secrets.redaction import Redactor
from bot.core.transcript import Line, LineKind
from bot.service.overview.transcript_views import transcript_page

AT = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


def texts(role: str, *said: str) -> Line:
    content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in said]
    return Line(LineKind.MESSAGE, AT, {"message": {"role": role, "content": content}})


def test_a_sentence_of_an_answer_is_shown_whole() -> None:
    """The service splits it at each citation; the parts of what the model was told stay apart."""
    lines = [texts("user", "A.", "B."), texts("assistant", "It is ", "3.14", ".")]
    page = transcript_page("plan-1", lines, 1, Redactor())
    assert [part.text for step in page.steps for part in step.parts] == ["A.", "B.", "It is 3.14."]

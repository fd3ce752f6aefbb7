"""When old results are cleared by the service: from a size on that a project chooses, or that the window sets."""

from dataclasses import replace

import pytest

from bot.agent.model.request import ConfiguredModel, context_fields
from bot.agent.model.specs import SPECS
from bot.ports import ModelRequest
from bot.testing.model.reply import say
from tests.agent.conftest import Open
from tests.agent.ground import stream

ONE = ModelRequest(
    "claude-opus-5-5",
    ({"type": "text", "text": "You are terse."},),
    (),
    [{"role": "user", "content": [{"type": "text", "text": "Hello."}]}],
)


@pytest.mark.req("C2")
@pytest.mark.parametrize(
    ("window", "chosen", "start"),
    ((1_000_000, 120_000, 120_000), (200_000, 120_000, 100_000), (1_000_000, 600_000, 500_000)),
)
def test_where_clearing_starts(window: int, chosen: int, start: int) -> None:
    """At the chosen size, or at half of a smaller window; each time a fifth of that is freed at least."""
    spec = replace(SPECS["claude-opus-5-5"], window=window)
    asked = replace(ONE, clear_at=chosen)
    assert context_fields(replace(asked, peak=start - 1), spec) == ({}, ())
    fields, betas = context_fields(replace(asked, peak=start), spec)
    (edit,) = fields["context_management"]["edits"]
    assert (edit["trigger"]["value"], edit["clear_at_least"]["value"]) == (start, start // 5)
    assert betas == ("context-management-2025-06-27",)


@pytest.mark.req("C2")
async def test_a_project_chooses_where(room: Open) -> None:
    """What is configured reaches the service, which takes it."""
    r = room(lambda _: say("Hi."))
    model = ConfiguredModel(r.model, clear_at=50_000)
    await stream(model, replace(ONE, peak=49_999))
    await stream(model, replace(ONE, peak=50_000))
    first, second = (request.body for request in r.api.requests)
    assert "context_management" not in first
    assert second["context_management"]["edits"][0]["trigger"]["value"] == 50_000

"""What a session is told when it begins, by the whole program; and that two repositories share what is static of it."""

import pytest

from bot.testing.model.cache import tokens
from bot.testing.model.reply import Fault, Reply, call, say
from bot.testing.model.request_view import ModelRequest
from tests.stories.conftest import Meet
from tests.stories.ground import FIXED

MEMORY = {
    "CLAUDE.md": "House rules: @docs/house.md\n<!-- a note to ourselves -->",
    "docs/house.md": "Use tabs.",
    "parcel/AGENTS.md": "Prices are in cents.",
}


def look(request: ModelRequest) -> Reply | Fault:
    """Read one file, and answer."""
    return call("Read", file_path=FIXED) if request.step == 0 else say("Because of the comparison.")


@pytest.mark.long
@pytest.mark.req("K10", "K11", "M1", "M2", "M4")
def test_what_a_session_is_told(meet: Meet) -> None:
    """The place and the memory come first, the folder's memory after its first file; nothing else differs.

    A session in another repository reads 90 % of the tools and the system prompt from the cache, or more.
    """
    person, model = meet(look)
    assert person.run("--dry-run", "--json", prompt="Why?").code == 0
    person.commit(MEMORY)
    (person.repository / "CLAUDE.md").write_text("Nobody has committed this.")
    other = person.repository.rename(person.home / "other")
    ended = person.run("--dry-run", "--json", prompt="Why?", repo=other)
    assert ended.code == 0, ended.err
    bare, _, first, second = model.requests
    for part in ("system", "tools"):
        assert bare.body[part] == first.body[part]
    shared = tokens(first.body["system"]) + tokens(first.body["tools"])
    assert ended.result["usage"]["cache_read"] >= 2 * 0.9 * shared  # by its first request, and by its second
    place, *_ = first.texts()
    for said in ("\nBranch: main\n", "\nTools in the sandbox: git ", "\nTop level: ", "45 minutes, 200 steps, $5.00\n"):
        assert said in place, place
    assert "more\n" in place.partition("Newest commits")[2]
    memory = "## CLAUDE.md\nHouse rules: @docs/house.md\n\n## docs/house.md\nUse tabs.\n</system-reminder>"
    assert memory in place
    assert "# Project memory" not in bare.texts()[0]
    below = "\n\n## parcel/AGENTS.md\nPrices are in cents.\n</system-reminder>"
    assert [sum(below in text for text in request.texts()) for request in (first, second)] == [0, 1]

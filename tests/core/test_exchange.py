"""What an exchange with the model costs, and what its session must not have read."""

import pytest

from bot.core.errors import CanaryShown
from bot.core.exchange import ModelRequest, Usage
from bot.core.plan import Contract
from bot.core.secrets.redaction import KIND, CanaryAlarm

VALUE = "plangate-canary-0123456789abcdef"


@pytest.mark.req("M12")
def test_usages_add_up() -> None:
    """Field by field; the context is the sum of the four kinds of tokens."""
    first, second = Usage(1, 2, 3, 4, 5, 6), Usage(10, 20, 30, 40, 50, 60)
    assert first + second == Usage(11, 22, 33, 44, 55, 66)
    assert first.context == 10


@pytest.mark.req("X3")
def test_a_canary_ends_all_that_follows() -> None:
    """Its values are named for the redactor; after one was seen, no text passes any more."""
    alarm = CanaryAlarm((VALUE,))
    assert alarm.named_values == ((VALUE, KIND),)
    alarm.check_text("nothing")
    for text in (f"key = {VALUE}", "nothing"):
        with pytest.raises(CanaryShown):
            alarm.check_text(text)


@pytest.mark.req("G3")
def test_a_contract_reaches_its_scope() -> None:
    contract = Contract(("src/*.py",))
    assert (contract.reaches("src/a.py"), contract.reaches("docs/a.md")) == (True, False)


@pytest.mark.parametrize(
    ("role", "only_caches", "streams"), (("main", False, True), ("light", False, False), ("main", True, False))
)
def test_only_long_answers_stream(role: str, only_caches: bool, streams: bool) -> None:
    """A light call is short, and writing the cache has no answer."""
    assert ModelRequest("m", (), (), [], role, only_caches).streams is streams

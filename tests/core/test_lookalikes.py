"""What looks like ASCII and is not is marked where a plan is decided upon; other writing stays."""

from dataclasses import replace

import pytest

from bot.core.codepoints import mark_beyond_ascii, mark_lookalikes
from bot.core.comment import contract
from bot.core.plan import Contract
from tests.core.approval_table import PLAN
from tests.rows import every_row

pytestmark = pytest.mark.req("X1", "PR5")


@every_row(
    ("command", "shown"),
    (
        ("p\u0443test -q", "p‹U+0443›test -q"),
        ("\u0440\u0441 x", "‹U+0440›‹U+0441› x"),
        ("r\u03bfot", "r‹U+03BF›ot"),
        ("p\u0131p", "p‹U+0131›p"),
        ("\uff50ip", "‹U+FF50›ip"),
        ("\U0001d429ip", "‹U+1D429›ip"),
        ("npm \u2013force", "npm ‹U+2013›force"),
        ("a\u2215b", "a‹U+2215›b"),
    ),
)
def test_lookalikes(command: str, shown: str) -> None:
    """A sign of another script that stands in for one of ASCII is shown by its number, once."""
    assert mark_lookalikes(command) == shown
    assert mark_lookalikes(shown) == shown


@pytest.mark.parametrize(
    "command", ("pytest -k größe", "pytest -k тест", "echo 日本語 ‹x›", "make ελληνικά", "cp a.py naïve.py")
)
def test_words_of_another_script_and_letters_with_accents_stay(command: str) -> None:
    assert mark_lookalikes(command) == command


def test_dependencies() -> None:
    """The name of a package is of ASCII: everything else is marked, and what was marked stays."""
    assert mark_beyond_ascii("numpỵ 日") == "nump‹U+1EF5› ‹U+65E5›"
    assert mark_beyond_ascii("nump‹U+1EF5›") == "nump‹U+1EF5›"


def test_an_old_plan_is_shown_with_marks() -> None:
    """A plan of before keeps its bytes, and with them its digest; what is shown of it is marked."""
    old = replace(PLAN, contract=Contract(("src/\u0430b.py",), ("m\u0430ke",), (), ("reque\u0455ts",)))
    shown = contract(old)
    assert "- Files: `src/‹U+0430›b.py`" in shown
    assert "- Commands to prove it: `m‹U+0430›ke`" in shown
    assert "- New dependencies: `reque‹U+0455›ts`" in shown

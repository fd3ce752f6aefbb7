"""Accounts, turns, replies by mail, and reposted words."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from bot.core.markdown.visible import command_lines, mentions
from bot.core.turn import (
    Actor,
    Command,
    Turn,
    UnknownCommand,
    Verb,
    addressing_line,
    counts_by_mail,
    first_line,
    is_repost,
    parse,
)
from tests.mails import QUOTED, SHAPES
from tests.rows import every_row


def test_turn_cannot_be_changed() -> None:
    """What a person said stays what was said."""
    turn = Turn("comment-5", Actor(1, "ana"), "Fix it.", datetime(2026, 11, 20, tzinfo=UTC))
    with pytest.raises(FrozenInstanceError):
        turn.text = "Break it."  # type: ignore[misc]
    assert turn.text == "Fix it."


LINES = {
    "@plangate fix it": "@plangate fix it",
    "  @Plangate, fix it  \nand that": "@Plangate, fix it",
    "/plangate stop": "/plangate stop",
    "@plangate": "@plangate",
    "@plangate\u2028@plangate approve": "@plangate",
    "@plangate re\u200bject": "@plangate re‹U+200B›ject",
    "please @plangate fix it": "please @plangate fix it",
    "Hi @plangate, stop.Ann LeeOn Jan 30": "@plangate stop",
    "Can @plangate fix it?": "",
    "Thanks.@plangate stop ***@***.***> wrote:": "",
    "Thanks.On Jan 30, 2023, at 1:52 AM, @plangate approve ***@***.***> wrote:": "",
    "\n@plangate stop": "",
    "> @plangate stop": "",
    "@plangate-fork stop": "",
    "@plangates stop": "",
    "/plangate": "",
    "": "",
    "@plangate stop.Ann LeeOn Jan 30, 2023, Bo Ray wrote:": "@plangate stop",
    "@plangate STOPÉcrit de mon iPhone": "@plangate STOP",
    "@plangate stop it!Sent from my iPhone": "@plangate stop it",
    "/plangate reject.Ann Lee": "@plangate reject",
    "@plangate approveAnn LeeOn Jan 30": "@plangate approve",
    "@plangate reject Not now.Ann Lee": "@plangate reject Not now.Ann Lee",
    "@plangate stopping is not enough": "@plangate stopping is not enough",
    "@plangate mode.py fails": "@plangate mode.py fails",
}


@pytest.mark.req("A6")
@every_row("text", LINES)
def test_only_a_first_line_that_begins_with_the_mention_addresses_the_bot(text: str) -> None:
    assert addressing_line(text, "@plangate") == LINES[text]


@pytest.mark.req("A6")
def test_no_shape_of_a_mail_makes_the_original_its_first_line() -> None:
    for shape in SHAPES.values():
        for original in QUOTED.values():
            body = shape("@plangate stop", original)
            assert parse(addressing_line(body, "@plangate")) == Command(Verb.STOP)
            assert addressing_line(shape("Thanks", original), "@plangate") == ""


@pytest.mark.req("A6")
def test_mails_ask_reject_and_stop_and_do_nothing_else() -> None:
    counted = {verb for verb in Verb if counts_by_mail(Command(verb))}
    assert counted == {Verb.REJECT, Verb.REVISE, Verb.STOP, Verb.STATUS, Verb.HELP}
    assert not counts_by_mail(UnknownCommand("@plangate aprove"))


def test_a_text_that_begins_with_a_blank_line_has_a_blank_first_line() -> None:
    assert [first_line(text) for text in ("", "\na", "a\r\nb", "a\x0bb")] == ["", "", "a", "a"]


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    "quote", ("> a", "> > a", "> - a", "> 1. a", "- > a", "> a  ", "> a\\", "> **a", "> [^1]: a", "> a\x0b", ">a")
)
@pytest.mark.parametrize("line", ("@plangate approve", "   /plangate stop"))
def test_a_line_directly_under_a_quote_stays_part_of_it(quote: str, line: str) -> None:
    """As GitHub shows Markdown that was written there; below a blank line, it is the author's."""
    assert (command_lines(f"{quote}\n{line}"), mentions(f"{quote}\n{line}", "@plangate")) == ((), False)
    assert command_lines(f"{quote}\n\n<!-- -->\n\n{line}") == (line.strip(),)


@every_row(
    ("text", "is_one"),
    (
        ("Words.\n\n_Originally posted by @rea in https://github.com/a/b/issues/1#issuecomment-2_", True),
        ("<div type='discussions-op-text'>\n\n<sup>Originally posted by **rea** May 1</sup>\nWords.</div>", True),
        ("It was originally posted by mistake.", False),
        ("", False),
    ),
)
def test_repost(text: str, *, is_one: bool) -> None:
    assert is_repost(text) is is_one

"""Commands: what is one, what is a mistake to answer, and what is ordinary speech."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.command import Command, UnknownCommand, Verb, parse
from tests.rows import every_row

DIGEST = "0123456789ab"


@every_row(
    ("line", "command"),
    (
        ("@plangate approve", Command(Verb.APPROVE)),
        (f"@plangate approve {DIGEST}", Command(Verb.APPROVE, DIGEST)),
        ("@plangate approve " + "aF" * 32, Command(Verb.APPROVE, "aF" * 32)),
        ("/plangate approve", Command(Verb.APPROVE)),
        ("  @Plangate  APPROVE  ", Command(Verb.APPROVE)),
        ("@plangate: stop", Command(Verb.STOP)),
        ("@plangate, retry", Command(Verb.RETRY)),
        ("@plangate stop!", Command(Verb.STOP)),
        ("@plangate Stop now!", Command(Verb.STOP)),
        ("@plangate stop please.", Command(Verb.STOP)),
        ("@plangate finish", Command(Verb.FINISH)),
        ("@plangate Finish now!", Command(Verb.FINISH)),
        ("@plangate help?", Command(Verb.HELP)),
        ("@plangate reject", Command(Verb.REJECT)),
        ("@plangate reject Too  much at once.", Command(Verb.REJECT, "Too much at once.")),
        ("@plangate revise Leave the tests alone", Command(Verb.REVISE, "Leave the tests alone")),
        ("@plangate budget 12", Command(Verb.BUDGET, "12")),
        ("@plangate budget $12.50", Command(Verb.BUDGET, "12.50")),
        ("@plangate mode next", Command(Verb.MODE, "next")),
        ("@plangate status", Command(Verb.STATUS)),
        ("@plangate help", Command(Verb.HELP)),
    ),
)
def test_command(line: str, command: Command) -> None:
    """Each documented command is read with its argument, whatever its case and spacing."""
    assert parse(line) == command


@every_row(
    ("line", "nearest"),
    (
        ("@plangate aprove", "approve"),
        ("@plangate approve.", "approve"),
        (" @plangate Statsu ", "status"),
        (f"@plangate aprove {DIGEST}", "approve"),
        (f"/plangate approved {DIGEST}", "approve"),
        ("@plangate bugdet $12.50", "budget"),
        ("@plangate xyzzy", ""),
        ("@plangate approve 0123456789a", "approve DIGEST (12 or more hex digits)"),
        ("@plangate approve 0123456789ag", "approve DIGEST (12 or more hex digits)"),
        (f"@plangate approve {DIGEST} {DIGEST}", "approve DIGEST (12 or more hex digits)"),
        ("@plangate approve this, please", "approve DIGEST (12 or more hex digits)"),
        ("@plangate revise", "revise HOW"),
        ("@plangate mode", "mode NAME"),
        ("@plangate budget", "budget N (dollars)"),
        ("@plangate budget much", "budget N (dollars)"),
        ("@plangate budget -5", "budget N (dollars)"),
        ("@plangate budget 1e9", "budget N (dollars)"),
        ("@plangate budget 1234567", "budget N (dollars)"),
        ("@plangate budget 5 dollars", "budget N (dollars)"),
    ),
)
def test_mistake(line: str, nearest: str) -> None:
    """A word that is no command, and a command without its proper argument, are answered with the nearest there is."""
    assert parse(line) == UnknownCommand(line.strip(), nearest)


@every_row(
    "line",
    (
        "",
        "   ",
        "approve",
        "@plangate",
        "/plangate",
        "@plangates approve",
        "@plangate-bot approve",
        "plangate approve",
        "please @plangate approve",
        "> @plangate approve",
        "`@plangate approve`",
        "@plangate please fix the login page",
        "@plangate stop doing that",
        "@plangate finish this",
        "@plangate finish the login page",
        "@plangate please stop!",
        "@plangate improve the tests",
        f"@plangate reset to {DIGEST}",
        "@plangate bridget 12 is on leave",
        "@plangate help me with the tests",
        "@plangate retry it now",
        "@plangate status of this?",
    ),
)
def test_speech(line: str) -> None:
    """A sentence, another name and a line that does not begin with the mention are no commands."""
    assert parse(line) is None


@pytest.mark.req("PR1")
@given(st.text() | st.text("@plangate/:, Approve0123456789af\u00a0"))
def test_approval_is_never_read_from_other_words(line: str) -> None:
    """Only the mention, the word and at most one digest make an approval."""
    command = parse(line)
    if isinstance(command, Command) and command.verb is Verb.APPROVE:
        words = line.lower().split()
        assert words[0].rstrip(",:") in {"@plangate", "/plangate"}
        assert words[1:] in (["approve"], ["approve", command.argument.lower()])


def test_other_mention() -> None:
    """A configured mention is the only one that is heard, with its slash form."""
    assert parse("@our-bot stop", "@our-bot") == Command(Verb.STOP)
    assert parse("/our-bot stop", "@our-bot") == Command(Verb.STOP)
    assert parse("@plangate stop", "@our-bot") is None
    assert parse("/ stop", "") is None, "at a terminal nothing is a command"


def test_every_verb_is_understood() -> None:
    """Each verb, with an argument that suits it, is a command."""
    suits = {Verb.BUDGET: "5", Verb.REVISE: "it", Verb.MODE: "next"}
    assert [parse(f"@plangate {verb} {suits.get(verb, '')}") for verb in Verb] == [
        Command(verb, suits.get(verb, "")) for verb in Verb
    ]

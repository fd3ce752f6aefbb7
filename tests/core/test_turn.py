"""How people address the bot: accounts, commands, replies by mail, and reposted words."""

import re
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    mention_pattern,
    parse,
    undecided_line,
    without_item_mark,
)
from tests.mails import QUOTED, SHAPES
from tests.rows import every_row

DIGEST = "0123456789ab"
FULL_WIDTH: Final = str.maketrans("0123456789ab", "０１２３４５６７８９ａｂ")


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
        "> @plangate approve",
        "`@plangate approve`",
        "@plangate please fix the login page",
        "@plangate stop doing that",
        "@plangate finish this",
        "@plangate finish the login page",
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


@every_row(
    ("line", "command"),
    (
        ("@plangate reject, too risky", Command(Verb.REJECT, "too risky")),
        ("@plangate reject: too risky", Command(Verb.REJECT, "too risky")),
        ("@plangate reject - too risky", Command(Verb.REJECT, "too risky")),
        ("@plangate reject — too risky", Command(Verb.REJECT, "too risky")),
        ("@plangate reject，太危险", Command(Verb.REJECT, "太危险")),
        ("@plangate reject。", Command(Verb.REJECT)),
        ("@plangate：reject、太危险。", Command(Verb.REJECT, "太危险。")),
        ("@plangate approve.", Command(Verb.APPROVE)),
        ("@plangate approve！", Command(Verb.APPROVE)),
        (f"@plangate approve: {DIGEST}.", Command(Verb.APPROVE, DIGEST)),
        ("Hi @plangate, approve", Command(Verb.APPROVE)),
        ("@plangate please approve", Command(Verb.APPROVE)),
        ("Hey, @plangate: ok, please stop!", Command(Verb.STOP)),
        ("thank you @plangate! retry", Command(Verb.RETRY)),
        ("请 @plangate approve", Command(Verb.APPROVE)),
        ("@plangate请 stop", Command(Verb.STOP)),
        ("/plangate, stop", Command(Verb.STOP)),
        ("@plangate stop, this is wrong", Command(Verb.STOP)),
        ("@plangate stop it now, please", Command(Verb.STOP)),
        ("@plangate retry,", Command(Verb.RETRY)),
        ("@plangate status?", Command(Verb.STATUS)),
        ("@plangate help!", Command(Verb.HELP)),
        ("@plangate budget: 5.", Command(Verb.BUDGET, "5")),
        ("@plangate mode: default.", Command(Verb.MODE, "default")),
        ("@plangate revise: Use `-x`.", Command(Verb.REVISE, "Use `-x`.")),
        ("@plangate revise --force is dangerous", Command(Verb.REVISE, "--force is dangerous")),
    ),
)
def test_a_verb_may_follow_a_greeting_and_be_followed_by_a_sign(line: str, command: Command) -> None:
    assert parse(line) == command


@pytest.mark.req("PR1")
@every_row(
    ("line", "nearest"),
    (
        ("@plangate approve?", "approve"),
        ("@plangate please approve?", "approve"),
        ("@plangate approve? I am not sure", "approve"),
        ("@plangate approve...", "approve"),
        ("@plangate approve…", "approve"),
        *((f"@plangate approve{sign}", "approve") for sign in ",:;、，：；—–"),
        ("@plangate approve ...", "approve DIGEST (12 or more hex digits)"),
        ("@plangate reject?", "reject"),
        ("@plangate approve, but add tests", "approve DIGEST (12 or more hex digits)"),
        ("@plangate approve not yet", "approve DIGEST (12 or more hex digits)"),
        ("@plangate please approve this", "approve DIGEST (12 or more hex digits)"),
        ("@plangate approved by me, go on", "approve"),
        (f"@plangate approve {DIGEST.translate(FULL_WIDTH)}", "approve DIGEST (12 or more hex digits)"),
        (f"@plangate approve “{DIGEST}”", "approve DIGEST (12 or more hex digits)"),
        ("@plangate budget ５", "budget N (dollars)"),
        ("@plangate \uff41\uff50\uff50\uff52\uff4f\uff56\uff45", "approve"),
        ("@plangate \u0430pprove", "approve"),
    ),
)
def test_a_doubtful_decision_is_a_mistake(line: str, nearest: str) -> None:
    assert parse(line) == UnknownCommand(line, nearest)


@pytest.mark.req("PR1")
@every_row(
    "line",
    (
        "@plangate please do not approve this",
        "@plangate don't approve",
        "@plangate I would approve if it had tests",
        "Thanks, but please @plangate approve",
        "I approve, @plangate",
        "approve @plangate",
        "LGTM, reject nothing @plangate",
        "@plangate? approve",
        "@plangate 'I'll reject it'",
    ),
)
def test_a_sentence_about_a_decision_is_no_command_and_is_found(line: str) -> None:
    assert not isinstance(parse(line), Command)
    assert undecided_line(f"Thanks.\n{line}\nBye.") == line


@every_row(
    "text",
    (
        "> please approve\n\nwith tests",
        "```\napprove\n```\nwith tests",
        "````\n```\napprove\n````\nwith tests",
        "call `approve` here",
        "call approve() here, in src/approve or approve.py",
        "# Approve\n\nwith tests",
        "disapprove, an approval",
    ),
)
def test_quoted_and_coded_words_are_no_decision(text: str) -> None:
    assert undecided_line(text) == ""


@every_row(
    "line",
    (
        "@plangate 修复登录页面",
        "@plangate修复",
        "@plangateさん",
        "@plangate please fix",
        "@plangate stop.py is broken",
        "@plangate status.md is missing",
        "hi@plangate approve",
        "@plangate.approve",
        "@plangate_approve",
        "node @plangate approve",
    ),
)
def test_a_request_is_speech_in_any_script(line: str) -> None:
    assert parse(line) is None


@every_row("line", ("- a", " * a", "+ a", "12. a", "1) a", "a"))
def test_the_mark_of_an_item_is_removed(line: str) -> None:
    assert without_item_mark(line) == "a"


def test_thanks_alone_are_answered_as_before() -> None:
    assert parse("@plangate thanks") == UnknownCommand("@plangate thanks")


MENTIONED: Final = (
    *(
        "@octocat",
        "@Octocat",
        "(@octocat)",
        ".@octocat",
        "/@octocat",
        "@@octocat",
        "-@octocat",
        "_@octocat",
        "é@octocat",
    ),
    *(
        "请@octocat 修复",
        "@octocat修复",
        "@octocatさん",
        "@octocat.",
        "@octocat...",
        "@octocat. Go",
        "@octocat,go",
        "@octocat:",
    ),
    *("@octocat's", "@octocat!", "@octocat—", "@octocat，", "@octocat@x", "\u200b@octocat"),
)
NOT_MENTIONED: Final = (
    *(
        "a@octocat",
        "Z@octocat",
        "9@octocat",
        "octocat",
        "＠octocat",
        "@octocats",
        "@octocat9",
        "@octocat_x",
        "@octocat_",
    ),
    *("@octocat-", "@octocat-dev", "@octocat/team", "@octocat.com", "@octocat..x"),
)


@pytest.mark.req("X2")
@every_row("text", (*MENTIONED, *NOT_MENTIONED))
def test_a_mention_is_what_github_takes_for_one(text: str) -> None:
    """Only ASCII letters and digits before it, and what would make a longer name after it, make it none."""
    assert bool(mention_pattern("@octocat").search(text)) == (text in MENTIONED)


def test_a_mention_of_anybody_names_the_account_or_team() -> None:
    found = mention_pattern().findall("请@ada_corp、@org/team修复 me@example.org @-x @bo-b.")
    assert found == ["@ada_corp", "@org/team", "@bo-b"]


def test_a_name_without_an_at_sign_stands_by_itself() -> None:
    assert mention_pattern("plangate").search("hey plangate")
    assert not mention_pattern("plangate").search("see x/plangate and my-plangate")


APPROVAL: Final = re.compile(
    r"((hi|hello|hey|dear|please|thanks|thank you|ok|okay|请|你好)\b[\W]*)*"
    r"[@/]plangate\b[^\w?]*((hi|hello|hey|dear|please|thanks|thank you|ok|okay|请|你好)\b[^\w?]*)*"
    r"approve([^\w?…]|!+)?\s*([0-9a-f]{12,}[^\w?…]?)?\s*"
)


@pytest.mark.req("PR1")
@given(
    st.text()
    | st.text("@plangate/:, Approve0123456789af\u00a0")
    | st.lists(
        st.sampled_from(
            ("@plangate", "approve", "not", "if", "please", "hi", "I", DIGEST, "?", "!", ",", ".", "…", " ")
        ),
        max_size=9,
    ).map("".join)
)
def test_approval_is_never_read_from_other_words(line: str) -> None:
    """Only greetings, the mention, the word, and at most one digest make an approval, and nothing in it asks."""
    command = parse(line)
    if isinstance(command, Command) and command.verb is Verb.APPROVE:
        assert APPROVAL.fullmatch(line.strip().lower())


def test_a_configured_mention_is_the_only_one_that_is_heard_with_its_slash_form() -> None:
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

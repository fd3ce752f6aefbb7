"""What a person sees of a Markdown text, and what of it speaks to the bot."""

import pytest

from bot.core.codepoints import with_visible_codepoints
from bot.core.markdown.visible import command_lines, mentions, visible_text, without_mention
from bot.core.turn import Command, Verb, parse
from tests.rows import every_row

pytestmark = pytest.mark.req("X1")

HIDDEN = {
    "comment": "before <!-- SECRET --> after",
    "comment in a block of its own": "before\n\n<!-- SECRET -->\n\nafter",
    "unclosed comment": "before after\n\n<!-- SECRET\nmore\n\nmore",
    "link definition": "before after\n\n[label]: https://example.org/SECRET 'SECRET'",
    "comment by link definition": "before after\n\n[//]: # (SECRET)",
    "alt text": "before ![SECRET](https://example.org/a.png) after",
    "title of a link": "before [after](https://example.org 'SECRET')",
    "title of a picture": "before ![](https://example.org/a.png 'SECRET') after",
    "picture source": "before ![](https://example.org/SECRET.png) after",
    "hidden element": "before <span hidden>SECRET</span> after",
    "style": "before\n\n<style>SECRET</style>\n\nafter",
    "template": "before <template>SECRET</template> after",
    "attribute": "before <b data-x='SECRET'>after</b>",
    "alt text in HTML": "before <img alt='SECRET' src='x'> after",
    "words after the language of a code block": "before\n\n```py SECRET\nafter\n```",
    "processing instruction": "before <?SECRET?> after",
    "declaration": "before <!DOCTYPE SECRET> after",
    "section": "before <![CDATA[SECRET]]> after",
}


@every_row("text", HIDDEN.values())
def test_hidden_parts_are_removed(text: str) -> None:
    """What a person does not see is not in the text, and what a person sees is."""
    seen = visible_text(text).text
    assert "SECRET" not in seen
    assert "before" in seen
    assert "after" in seen


@every_row("case", [name for name in HIDDEN if name not in {"picture source", "attribute"}])
def test_what_is_removed_is_said(case: str) -> None:
    assert any("SECRET" in fragment for fragment in visible_text(HIDDEN[case]).removed)


@every_row(
    ("text", "seen"),
    (
        ("plain", "plain"),
        ("# Heading\ntext", "# Heading\n\ntext"),
        ("**bold** and `code`", "bold and `code`"),
        ("one\r\ntwo", "one\ntwo"),
        ("- a\n- b", "- a\n\n- b"),
        ("- a\n  - b", "- a\n\n  - b"),
        ("1. a\n2. b", "1. a\n\n2. b"),
        ("- > quoted", "- > quoted"),
        ("> a\n> b", "> a\n> b"),
        ("| a | b |\n|---|---|\n| c | d |\n\nend", "a | b\nc | d\n\nend"),
        ("```py\nx = 1\n```", "```py\nx = 1\n```"),
        ("    indented", "```\nindented\n```"),
        ("[words](https://example.org/a)", "words (https://example.org/a)"),
        ("a &lt;b&gt; c", "a <b> c"),
        ("a<br>b", "a\nb"),
        ("<details><summary>Sum</summary>\n\ninner\n\n</details>", "Sum\n\ninner"),
        ("- [ ] box", "- [ ] box"),
        ("", ""),
    ),
)
def test_what_is_seen_is_kept(text: str, seen: str) -> None:
    assert visible_text(text).text == seen


@every_row(
    ("text", "seen"),
    (
        ("a\u200bb", "a‹U+200B›b"),
        ("a\U000e0041b", "a‹U+E0041›b"),
        ("a\u202eb", "a‹U+202E›b"),
        ("葛\U000e0100\U000e0101", "葛\U000e0100‹U+E0101›"),
        ("葛\U000e0110", "葛‹U+E0110›"),
        ("a\ufe01b", "a‹U+FE01›b"),
        ("a\U000e0101b", "a‹U+E0101›b"),
        ("a\u3164b", "a‹U+3164›b"),
        ("a\ufeffb", "a‹U+FEFF›b"),
        ("a\x1b[31mb", "a‹U+001B›[31mb"),
        ("a\xadb", "a‹U+00AD›b"),
        ("a\ufe0fb", "a‹U+FE0F›b"),
        ("a\u200db", "a‹U+200D›b"),
    ),
)
def test_invisible_code_points_are_shown(text: str, seen: str) -> None:
    assert with_visible_codepoints(text) == seen


@every_row(
    "text",
    (
        "tab\tand\nline",
        "❤️ ✔️ 1️⃣ #️⃣",
        "👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
        "👩🏽‍💻",
        "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "می‌خواهم",
        "क्‍ष",
        "naïve café 日本語 Ελληνικά",
        "葛\U000e0100飾区 辻\U000e0101さん 神\ufe00",
    ),
)
def test_writing_keeps_what_it_needs(text: str) -> None:
    assert with_visible_codepoints(text) == text


@pytest.mark.parametrize(
    "text",
    (
        "@plangate do it",
        "please, @PlanGate: do it",
        "- a list\n- with @plangate in it",
        "**@plangate** do it",
        "(@plangate)",
        "/plangate status",
        "/plangate, stop",
        "- /plangate status",
        "one\n\n/plangate approve 0123456789ab",
        "请@plangate 修复",
        "@plangate修复",
        "@plangateさん、お願いします",
        "&#64;plangate do it",
        "@@plangate",
    ),
)
def test_a_mention_in_prose_or_a_command_line_speaks_to_the_bot(text: str) -> None:
    assert mentions(text, "@plangate")


@every_row(
    "text",
    (
        "`@plangate`",
        "`/plangate status`",
        "```\n@plangate\n```",
        "    @plangate",
        "> @plangate do it",
        "> quoted\n@plangate lazily continued",
        "# @plangate",
        "@plangate\n====",
        "<!-- @plangate -->",
        "[@plangate](https://example.org)",
        "![@plangate](https://example.org/a.png)",
        "<b title='@plangate'>x</b>",
        "<div>@plangate</div>",
        "| @plangate |\n|---|\n| @plangate |",
        "me@plangate.example",
        "@plangate-dev",
        "@plangate/team",
        "me@plangate",
        "@plangate_",
        "@plangate.example",
        "path/plangate status",
        "> quoted\n/plangate approve 0123456789ab",
        "@plan\u200bgate",
    ),
)
def test_other_places_do_not_mention(text: str) -> None:
    assert not mentions(text, "@plangate")


def test_command_lines_are_lines_of_top_level_prose() -> None:
    """Commands stand in paragraphs of their own; a digest may be in a code span, a command may not."""
    text = "@plangate approve `0123456789ab`\nnext\n\n> /plangate stop\n\n- /plangate stop\n\n`/plangate stop`"
    assert command_lines(text) == ("@plangate approve 0123456789ab", "next", "/plangate stop", "`/plangate stop`")


@every_row(
    ("text", "lines"),
    (
        ("- /plangate stop", ("/plangate stop",)),
        ("1. first\n2. /plangate stop", ("first", "/plangate stop")),
        ("- one\n/plangate stop", ("one",)),
        ("- one\n  /plangate stop", ("one",)),
        ("- one\n\n  /plangate stop", ("one",)),
        ("- - /plangate stop", ()),
        ("- one\n  - /plangate stop", ("one",)),
        ("- > /plangate stop", ()),
        ("> - /plangate stop", ()),
        ("- # /plangate stop", ()),
        ("- `/plangate stop`", ("`/plangate stop`",)),
        ("-     /plangate stop", ()),
        ("- ```\n  /plangate stop\n  ```", ()),
        ("- [ ] /plangate stop", ("[ ] /plangate stop",)),
        ("\\- /plangate stop", ("- /plangate stop",)),
    ),
)
def test_a_command_may_begin_an_item_of_a_top_level_list(text: str, lines: tuple[str, ...]) -> None:
    assert command_lines(text) == lines


@pytest.mark.req("PR1")
@every_row(
    "text", ("> quoted\n/plangate stop", "> a\n> b\n/plangate stop", "> > a\n/plangate stop", "> - a\n/plangate stop")
)
def test_a_line_directly_under_a_quote_is_part_of_it(text: str) -> None:
    """It is a lazy continuation line: https://spec.commonmark.org/0.31.2/#lazy-continuation-line"""
    assert command_lines(text) == ()
    assert all(line.startswith(">") for line in visible_text(text).text.split("\n"))


@pytest.mark.parametrize(
    ("text", "seen"),
    (
        ("> [a]: b\n/plangate stop", "> /plangate stop"),
        ("> > [a]: b 't'\n/plangate stop", "> > /plangate stop"),
        ("> [a]: b\n[c]: d\n    /plangate stop", "> /plangate stop"),
        ("[a]: b\n/plangate stop\n===", "# /plangate stop"),
        ("[a]: b\n|---|\n/plangate stop", "[a]: b\n/plangate stop"),
        ("/plangate stop\n| t |\n---", "## /plangate stop\n| t |"),
    ),
)
def test_a_definition_begins_a_paragraph(text: str, seen: str) -> None:
    """A line that would continue it is in the same quote, item, heading, or table, as cmark-gfm shows it."""
    assert visible_text(text).text == seen
    assert command_lines(text) == ()


@pytest.mark.parametrize("before", ("[a]: b\n", "[a]: b\n    ", "> [a]: b\n\n", "> [a]: b\n# h\n", "> [a]: b\n---\n"))
def test_a_command_after_a_definition(before: str) -> None:
    assert command_lines(f"{before}/plangate stop") == ("/plangate stop",)


@pytest.mark.parametrize(
    ("text", "left"),
    (
        ("@plangate, fix it", "fix it"),
        ("please @plangate fix it", "please fix it"),
        ("one\n@plangate two", "one\ntwo"),
        ("@plangate", ""),
        ("`@plangate` stays", "`@plangate` stays"),
        ("请@plangate，修复", "请 修复"),
        ("@plangate修复", "修复"),
    ),
)
def test_a_request_is_read_without_the_mention(text: str, left: str) -> None:
    assert without_mention(text, "@plangate") == left


@pytest.mark.timeout(30)
def test_blanks_around_a_mention() -> None:
    """However many they are, they are looked at once."""
    assert without_mention("a" + " " * 60_000 + "b   @plangate   c", "@plangate") == "a" + " " * 60_000 + "b c"


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    ("text", "seen"),
    (
        ("a\n\n---\n\nb", "a\n\n---\n\nb"),
        ("<https://example.org/x>", "https://example.org/x"),
        ("one<br/>two", "one\ntwo"),
    ),
    ids=("rule", "address", "break"),
)
def test_small_things(text: str, seen: str) -> None:
    """A rule, an address that is its own text, and an element that closes itself."""
    assert visible_text(text).text == seen


SAID = "@plangate approve"


@every_row(
    "text",
    (
        f"<blockquote>\n\n{SAID}\n\n</blockquote>\n\nNot yet.",
        f"Bob wrote: <blockquote>\n{SAID}\n</blockquote>",
        f"<q>{SAID}</q>",
        f"<code>{SAID}</code>",
        f"<kbd>{SAID}</kbd>",
        f"Like this: <pre>{SAID}</pre>",
        f"Like this: <h2>{SAID}</h2>",
        f"<table><tr><td>\n\n{SAID}\n\n</td></tr></table>",
        f"<code>\n\n{SAID}\n\n</code>",
        f"~~{SAID}~~",
        f"<del>{SAID}</del>",
        f"<s>{SAID}</s>",
        f"<del>\n\nOr\n\n{SAID}\n\n</del>",
        f"- <blockquote>\n\n  {SAID}",
    ),
)
def test_words_in_quotes_and_code_of_html_command_nothing(text: str) -> None:
    """HTML that looks like a quote, code, a heading, or a table is one. What was struck out is taken back."""
    assert not mentions(text, "@plangate")
    assert not any(isinstance(parse(line), Command) for line in command_lines(text))


@every_row(
    "text",
    (
        "@plangate approve [if CI is green](https://ci.example)",
        "@plangate [never](https://ci.example) approve",
        "@plangate <a href='https://ci.example'>do not</a> approve",
        "@plangate ~~do not~~ approve",
        "@plangate approve [abcdef012345](https://ci.example)",
        "@plangate approve ![not this](https://ci.example/a.png)",
        "@plangate approve <img src='https://ci.example/a.png'>",
        "@plangate approve <q>soon</q>",
        "@plangate budget 5[00](https://ci.example)",
        "@<!-- -->plangate approve",
    ),
)
def test_words_that_address_nobody_do_not_drop_out_of_a_command(text: str) -> None:
    """A person sees a longer sentence than the one that is left without links, pictures, and quotes."""
    assert not any(isinstance(parse(line), Command) for line in command_lines(text))


@every_row(
    ("text", "seen"),
    (
        ("<blockquote>\n\none\ntwo\n\n</blockquote>\n\nown", "> one\n> two\n\nown"),
        ("so <blockquote>one\ntwo</blockquote>own", "so \n> one\n> two\nown"),
        ("keep ~~drop~~ <del>the</del> <s>table</s>", "keep ~~drop~~ ~~the~~ ~~table~~"),
    ),
)
def test_quotes_and_struck_words_are_shown_as_such(text: str, seen: str) -> None:
    assert visible_text(text).text == seen


def test_end_of_a_quote_in_html_ends_the_quote() -> None:
    text = "<blockquote>\n\nit breaks\n\n</blockquote>\n\n@plangate stop\n\n</code>\n\n- <q>x\n\n@plangate retry"
    assert [parse(line) for line in command_lines(text)][-1] == Command(Verb.RETRY)
    assert Command(Verb.STOP) in [parse(line) for line in command_lines(text)]


@every_row(
    "text",
    (
        "see https://pages.example/@plangate",
        "www.pages.example/@plangate/one it says",
        "- https://pages.example/(@plangate",
    ),
)
def test_address_that_contains_the_name_mentions_nobody(text: str) -> None:
    assert not mentions(text, "@plangate")
    assert mentions(f"{text} @plangate", "@plangate")

"""What the bot posts can do nothing."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.core.codepoints import with_visible_codepoints
from bot.core.markdown.gfm import parse
from bot.core.markdown.inert import (
    POSTED_BYTES,
    POSTED_CHARACTERS,
    cut,
    inert_line,
    inert_markdown,
    inert_message,
    may_have_code_block,
)
from bot.core.markdown.visible import visible_text
from tests.core.hidden_channels import HIDDEN
from tests.core.test_hidden import WRITTEN
from tests.rows import every_row

pytestmark = pytest.mark.req("X2")


@every_row(
    ("text", "posted"),
    (
        ("plain *text* with `code`", "plain *text* with `code`"),
        ("hello @bob and @org/team", "hello `@bob` and `@org/team`"),
        ("me@example.org", "me@example.org"),
        ("Fixes #12, closes: a/b#3", "Fixes `#12`, closes: `a/b#3`"),
        ("resolves https://github.com/a/b/issues/1", "resolves `https://github.com/a/b/issues/1`"),
        ("fixed\nGH-1", "fixed\n`GH-1`"),
        ("see #12", "see #12"),
        ("![a](https://evil.example/a.png)", "a (`https://evil.example/a.png`)"),
        ("[a](https://evil.example/?q 't')", "a (`https://evil.example/?q`)"),
        ("[a](https://good.example/x)", "[a](https://good.example/x)"),
        ("[a](#part)", "[a](#part)"),
        ("[a](javascript:alert(1))", "a (`javascript:alert(1)`)"),
        ("[a](<data:text/plain,run this now>)", "a (`data:text/plain,run this now`)"),
        ("https://evil.example/a", "`https://evil.example/a`"),
        ("https://good.example/a", "https://good.example/a"),
        ("<https://evil.example>", "`https://evil.example`"),
        ("www.evil.example", "`www.evil.example`"),
        ("<script>x</script>", "&lt;script>x&lt;/script>"),
        ("<!-- plangate:1 -->", "&lt;!-- plangate:1 -->"),
        ("a < b", "a < b"),
        ("::set-env name=x::y", "\\::set-env name=x::y"),
        ("  ##[error]x", "  \\##[error]x"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("- [ ] box\n- [x] done", "- ☐ box\n- ☑ done"),
        ("a\u202eb", "a‹U+202E›b"),
        ("```\n@bob <b>\n::x\n```", "```\n@bob <b>\n\\::x\n```"),
        ("a&#x202e;b", "a‹U+202E›b"),
        ("a&#8203;&ZeroWidthSpace;b", "a‹U+200B›‹U+200B›b"),
        ("&zwnj;&NoBreak;&lrm;&shy;", "‹U+200C›‹U+2060›‹U+200E›‹U+00AD›"),
        ("a&#xE0041;&#917570;", "a‹U+E0041›‹U+E0042›"),
        ("a&#27;[31m&#0;&#xD800;&#9999999;", "a‹U+001B›[31m‹U+0000›‹U+D800›‹U+FFFD›"),
        ("# a&#8203;\n\n| &#8203; |\n|---|\n| &rlm; |", "# a‹U+200B›\n\n| ‹U+200B› |\n|---|\n| ‹U+200F› |"),
        ("[a&lrm;b](https://good.example/x)", "[a‹U+200E›b](https://good.example/x)"),
        ("![a&#8203;](https://evil.example/x)", "a‹U+200B› (`https://evil.example/x`)"),
        ("می&zwnj;خواهم 👩&zwj;💻", "می\u200cخواهم 👩\u200d💻"),
        ("&copy; &amp;#8203; &#65; \\&#8203;", "&copy; &amp;#8203; &#65; \\&#8203;"),
        ("`&#8203;`\n\n```\n&zwj;\n```", "`&#8203;`\n\n```\n&zwj;\n```"),
        ("_@bob", "_`@bob`"),
    ),
)
def test_what_acts_is_made_text(text: str, posted: str) -> None:
    assert inert_markdown(text, {"good.example"}) == posted


@pytest.mark.parametrize(
    "text",
    (
        "[a][b]\n\n[b]:\nhttps://evil.example 'x'",
        "`` ` <b>x</b>",
        "` <img src=x> `` ` @bob",
        "[x\ny](https://evil.example)",
        "![x][y]\n\n> [y]: https://evil.example/a.png",
        "*@*bob <@bob>",
    ),
)
def test_what_resists_is_harmless_as_well(text: str) -> None:
    """A text that plays with the edges of Markdown comes out without HTML, links or pictures."""
    assert acting(inert_markdown(text)) == []


PERSON = re.compile(r"(?<![\w@/.-])@bob")
SPACED = (" ", "    ", "\n", "\n\n", "> ", "- ", "[a]: https://e.example\n")
OTHERS = "@bob ` `` ``` ~~~ <b> <!-- --> [a] (https://e.example) ![ ]( > \\ x &lt; &rlm; ::x https://e.example/ * _ <"
PIECES = st.sampled_from((*SPACED, *OTHERS.split()))


@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_mixture_is_harmless(text: str) -> None:
    """No mixture of the pieces of Markdown leaves HTML, a link or a picture, a mention, or an invisible code point."""
    assert acting(inert_markdown(text)) == []


@pytest.mark.parametrize("text", ("x" * 100_000, ("y" * 30 + "\n") * 2_500, "𝕏" * 60_000, "```\n" + "z\n" * 60_000))
def test_long_texts_are_cut(text: str) -> None:
    """At most 58,000 code points and 232,000 bytes, and no open code block swallows what follows."""
    posted = inert_markdown(text)
    assert len(posted) <= POSTED_CHARACTERS
    assert len(posted.encode()) <= POSTED_BYTES
    assert "cut" in MarkdownIt().parse(posted)[-2].content


def acting(posted: str) -> list[str]:
    tokens = MarkdownIt("commonmark", {"html": True}).parse(posted)
    parts = [part for token in tokens for part in (token, *(token.children or []))]
    kinds = {"html_block", "html_inline", "link_open", "image"}
    return [part.type for part in parts if part.type in kinds or (part.type == "text" and acts(part.content))]


def acts(text: str) -> bool:
    """Return whether a text mentions a person or has an invisible code point."""
    return PERSON.search(text) is not None or with_visible_codepoints(text) != text


@given(st.text(st.sampled_from("@a`\n ~-#1<>[]()") | st.characters(), max_size=400), st.integers(0, 300))
def test_cut(text: str, characters: int) -> None:
    """A text that was cut fits, but for the note that says so, and what is left is as inert as it was."""
    made = cut(inert_markdown(text), characters)
    note = "(The rest was cut: the text is too long for one comment.)"
    assert len(made) <= max(characters, len(note) + 3)
    kept = made.removesuffix(f"\n\n{note}\n")
    assert inert_markdown(kept) == kept


@pytest.mark.parametrize(
    ("text", "title", "message"),
    (
        ("Fix\nit", "Fix it", "Fix\nit"),
        ("\x1b[31mRed\u200b", "Red‹U+200B›", "Red‹U+200B›"),
        ("Fixes #7 [skip ci] `fixes #8`", "Fixes `#7` (skip ci) `fixes #8`", "Fixes `#7` (skip ci) `fixes #8`"),
        ("thanks @octocat", "thanks @octocat", "thanks `@octocat`"),
        ("Signed-off-by: A <a@b.c>", "Signed-off-by: A <a@b.c>", "  Signed-off-by: A <a@b.c>"),
        ("x" * 300, "x" * 256, "x" * 300),
    ),
)
def test_titles_and_messages(text: str, title: str, message: str) -> None:
    """A title is one line of 256 characters; a message mentions nobody and signs nothing; neither closes or skips."""
    assert (inert_line(text), inert_message(text)) == (title, message)


@pytest.mark.parametrize(
    ("text", "posted"),
    (("\\`<b>x</b>\\`", "```text\n\\`<b>x</b>\\`\n```\n"), ("[a](https://[x)", "a (`https://[x`)")),
    ids=("a span that is none", "an address that is none"),
)
def test_what_only_looks_harmless(text: str, posted: str) -> None:
    """What the parser still finds acting is shown as code, and an address that cannot be read is no allowed one."""
    assert inert_markdown(text) == posted


CELLS = "before\n\n| after |\n|---|\n| x | SECRET |\n"
"""Cells beyond those of the head are not shown."""


@pytest.mark.req("PR5")
@every_row("text", (*HIDDEN.values(), CELLS))
def test_nobody_approves_what_nobody_sees(text: str) -> None:
    """Of what hides words where it is posted as it is, nothing is left that is not shown."""
    posted = inert_markdown(text)
    seen = visible_text(posted.replace("&lt;", "‹"))  # what is escaped is shown
    assert posted.count("SECRET") <= seen.text.count("SECRET")
    assert [part for part in seen.removed if "SECRET" in part] == []
    assert "before" in seen.text


@pytest.mark.req("PR5")
@every_row(
    "text", ("\\\\&#x202e;", "\\`&#8203;\\`", '[a](https://good.example "&#8203;")', "&#x202e;" * 3 + "`&lrm;` &lrm;")
)
def test_no_invisible_code_point_is_left_once_entities_are_decoded(text: str) -> None:
    """However an entity stands among escapes and code spans, what GitHub decodes is visible."""
    tokens = MarkdownIt("commonmark").parse(inert_markdown(text, {"good.example"}))
    parts = [part for token in tokens for part in (token, *(token.children or []))]
    shown = "".join(f"{part.content if part.type == 'text' else ''}{part.attrGet('title') or ''}" for part in parts)
    assert with_visible_codepoints(shown) == shown


@pytest.mark.req("PR5")
@every_row("text", WRITTEN)
def test_what_people_write_is_no_code(text: str) -> None:
    assert inert_markdown(text).startswith("```text") == text.startswith("```text")


@given(st.text("`~ \t\n-1.)>*a#<[^]:", max_size=60))
def test_only_what_may_have_a_code_block_is_parsed_for_it(text: str) -> None:
    """A text without a fence or an indent has no code block, wherever lists and quotes may put one."""
    has_one = any(token.type in {"fence", "code_block"} for token in parse(text))
    assert may_have_code_block(text) or not has_one
    assert not may_have_code_block(text.replace(" ", "").replace("\t", "").replace("`", "").replace("~", ""))

"""What a person does not see is hidden from the bot, and told."""

import random
import re
import sys
import unicodedata
from dataclasses import replace
from typing import Final

import pytest

from bot.core.comment import plan_text
from bot.core.markdown.inert import inert_markdown
from bot.core.markdown.markup import diagram, formulas, in_sight
from bot.core.markdown.visible import Visible, mentions, visible_text, visible_title
from bot.core.plan import Hidden
from tests.core.approval_table import PLAN
from tests.core.hidden_channels import HIDDEN, SPELLED, UNSEEN_IN_DIAGRAMS, UNSEEN_IN_FORMULAS
from tests.rows import every_row

# Default_Ignorable_Code_Point (https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt), as it was in
# Unicode 16, without what is not assigned; the format characters beside it are known by their category.
IGNORED: Final = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), 0xE0001, *range(0xE0020, 0xE0080), *range(0xE0100, 0xE01F0)),
)
ALSO: Final = (0x2028, 0x2029, 0x2800, 0x16FE4, 0x1D159, 0x1343F)
"""Separators of lines, and what is drawn as nothing without being ignored."""
FORMATS: Final = (*range(0x14000), *range(0x1BC00, 0x1BD00), *range(0x1D000, 0x1D200), *range(0xE0000, 0xE1000))
"""Where Unicode has format characters; to ask of each of its million characters would take every run half a second."""
INVISIBLE: Final = sorted({*IGNORED, *ALSO, *(at for at in FORMATS if unicodedata.category(chr(at)) == "Cf")})


def told(text: str) -> str:
    return plan_text(replace(PLAN, hidden=Hidden.of(visible_text(text).removed)), "Decide.")


@pytest.mark.req("X1")
@every_row("name", HIDDEN)
def test_hidden_words(name: str) -> None:
    """What a person does not see is not in the text, what a person sees is, and the plan shows what was hidden."""
    seen = visible_text(HIDDEN[name]).text
    assert "SECRET" not in seen
    assert "before" in seen
    assert "after" in seen
    assert "SECRET" in told(HIDDEN[name])
    assert "removed from the request before the plan was made" in told(HIDDEN[name])


@pytest.mark.req("X1")
@every_row("name", HIDDEN)
def test_hidden_words_do_not_wake(name: str) -> None:
    assert not mentions(HIDDEN[name].replace("SECRET", "@plangate"), "@plangate")


@pytest.mark.req("X1")
@every_row("name", SPELLED)
def test_spelled_with_what_nobody_sees(name: str) -> None:
    """Words that are spelled with code points that nobody sees are not in the text, in no form; the plan tells."""
    text = f"before {SPELLED[name]} after"
    seen = visible_text(text).text
    assert [sign for sign in seen if ord(sign) in INVISIBLE or ord(sign) > 0xEFFFF] in ([], ["\u200c"])
    assert seen.count("‹") <= 1
    assert "‹U+" in told(text)


@pytest.mark.req("X1")
def test_every_code_point_that_nobody_sees() -> None:
    """Each of them by itself, in the midst of a word, is shown by its number and told of in the plan."""
    assert len(INVISIBLE) >= 431
    for at in INVISIBLE:
        name = f"‹U+{at:04X}›"
        assert visible_text(f"a{chr(at)}b").text == f"a{name}b", name
        assert name in told(f"a{chr(at)}b"), name


@pytest.mark.req("X1")
def test_every_code_point_in_code() -> None:
    for at in INVISIBLE:
        for text in (f"```\na{chr(at)}b\n```", f"`a{chr(at)}b`"):
            assert chr(at) not in visible_text(text).text.removesuffix("\n"), hex(at)


@pytest.mark.req("X1")
@every_row(
    ("text", "seen"),
    (
        ("See[^1].\n\n[^1]: The note.\n\n    More.", "See[^1].\n\n[^1]: The note.\n\nMore."),
        ("See[^A].\n\n[^a]: The note.", "See[^A].\n\n[^a]: The note."),
        ("See.\n\n[^a]: One.[^b]\n\n[^b]: Two.", "See.\n\n[^b]: Two."),
        ("See.\n\n[^a]: Of itself.[^a]", "See.\n\n[^a]: Of itself.[^a]"),
        ("[a](b(c)d) [e](" + "(" * 33 + "f )", "a (b(c)d) [e](" + "(" * 33 + "f )"),
        ("A [link](https://example.org/x) stays", "A link (https://example.org/x) stays"),
        ("A <a href='https://example.org/x'>link</a> stays", "A link (https://example.org/x) stays"),
        ("<div align='center'>\n\nmiddle\n\n</div>\n\nend", "middle\n\nend"),
        ("use <span hidden> here\n\nend", "use \n\nend"),
        ("<p style='color: red'>red</p>", "red"),
        ("an <a href='https://example.org/x'>open link", "an open link (https://example.org/x)"),
        ("<div>a <![<?> b", "a  b"),
        ("> see[^1]\n    [^1]: lazy", "> see[^1]\n> [^1]: lazy"),
        ("> see[^1]\n[^1]: note", "> see[^1]\n\n[^1]: note"),
        ("see[^1]\n\n    [^1]: code", "see[^1]\n\n```\n[^1]: code\n```"),
        ("```mermaid\ngraph TD\n```", "```mermaid\ngraph TD\n```"),
        ("- <div hidden>\n\n  x\n- end", "- end"),
        ("&lt;!-- seen --&gt; `<!-- seen -->`", "<!-- seen --> `<!-- seen -->`"),
        ("before <!-- seen\n\nafter -->", "before <!-- seen\n\nafter -->"),
        ("seen <!--- `seen`", "seen <!--- `seen`"),
        ("\\<!-- seen -->", "<!-- seen -->"),
        ("<\\!-- seen -->", "<!-- seen -->"),
        ("<p>&lt;!-- seen --&gt;</p>", "<!-- seen -->"),
    ),
)
def test_what_is_seen(text: str, seen: str) -> None:
    """What stands beside a way to hide something, and hides nothing, stays."""
    assert visible_text(text).text == seen


# What people write, as GitHub's own pages on writing teach it.
WRITTEN: Final = (
    "| Left | Right |\n|:---|---:|\n| `a \\| b` | **2** |",
    "<details open>\n<summary>Logs</summary>\n\n```text\nError: $HOME is 100% full of $PATH\n```\n\n</details>",
    "```mermaid\nsequenceDiagram\n  Alice->>Bob: Hello\n  Note over Bob: style of life\n```",
    "```mermaid\ngraph LR\n  A[Start] --> B{Works?}\n  B -->|no| A\n```",
    "The sum $\\sum_{i=1}^{n} x_i^2$ is $\\sqrt{2}$, or $$\\frac{a}{b} \\text{ for } b \\ne 0$$ so",
    "It went from $5 to $10, 20% more; `echo $A $(date +%s) $B` says so",
    "- [ ] open\n- [x] done #12 @maya GH-3 parcel/shop@abc1234",
    "> [!WARNING]\n> Mind the gap.",
    "See[^1] and H<sub>2</sub>O, x<sup>2</sup>, <kbd>Ctrl</kbd>+<kbd>C</kbd>.\n\n[^1]: A note.",
    ":tada: :+1: ~~old~~ **new** _really_ ***both*** \\*no\\*",
    "1. one\n   - two\n     ```py\n     print('%d' % 3)  # 100% $x$\n     ```",
    "```diff\n- old\n+ new\n```\n\n***\n\nhttps://example.org/a?b=c#d and <https://example.org>",
    '<p align="center">A <b>word</b><br>more</p>',
)


@pytest.mark.req("X1")
@every_row("text", WRITTEN)
def test_what_people_write(text: str) -> None:
    """Nothing of it is taken for hidden: each of its words is in the text, and the plan tells of nothing."""
    seen = visible_text(text)
    assert seen.removed == ()
    assert "(formula)" not in seen.text
    words = re.findall(r"[^\W_]{3,}", re.sub(r"<[^>]*>|^```\w*", " ", text, flags=re.MULTILINE))
    assert [word for word in words if word not in seen.text] == []


# --- ordinary texts --------------------------------------------------------------------------------------------------

WORDS: Final = {
    "emoji": (
        "👩‍💻 👨‍👩‍👧‍👦 🏳️‍🌈 🏴‍☠️ 👍🏽 👩🏽‍💻 🧑🏿‍🤝‍🧑🏻 ❤️ ❤️‍🔥 ✔️ ☺︎ ↩︎ ▶️ 1️⃣ #️⃣ 🇩🇪 🇯🇵 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿 ⚕️ 👩‍⚕️ 🙂‍↔️ 🐻‍❄️ 😮‍💨 ©️ ™️ ㊗️"
    ).split(),
    "English": "the build fails on Windows since 1.2 naïve café O’Neill – “quoted” … x² ½ µs".split(),
    "Persian": "می‌خواهم نمی‌شود کتاب‌ها برنامه‌نویسی سلام خانه‌ای این‌جا ه‍ ۱۲۳".split(),
    "Arabic": "مرحبا بالعالم هذا نصّ عربيّ مع تشكيل كِتَابٌ ١٤٤٥ه‍ ؟ ، ﷺ".split(),
    "Hebrew": "שלום עולם בְּרֵאשִׁית זה טקסט בעברית צה״ל".split(),
    "Hindi": "नमस्ते दुनिया क्‍ष श्रीमान् र्‍य हिन्दी में".split(),
    "Bengali": "র‍্যাব ক্ষ বাংলা উৎস র্যাঁদা".split(),
    "Malayalam": "ന്‍ അവന്‍ ര്‍ മലയാളം ള്‍ എന്‍റെ".split(),
    "Sinhala": "ශ්‍රී ලංකා ක්‍ෂ ප්‍රශ්නය".split(),
    "Tamil": "வணக்கம் க்‌ஷ ஸ்ரீ".split(),
    "Thai": "สวัสดีชาวโลก ทดสอบ".split(),
    "Japanese": "日本語のテスト カタカナ 一二三 〜 ー".split(),
    "Korean": "안녕하세요 세계 테스트".split(),
    "Chinese": "你好 世界 中文 測試 ，。".split(),
    "Greek": "Ελληνικά κείμενο ΐ".split(),
    "Russian": "Привет мир ёлка й".split(),
}


def ordinary(seed: int) -> str:
    """Make a text as people write it, of one script or of several, with emoji."""
    dice = random.Random(seed)
    scripts = dice.sample(list(WORDS), dice.choice((1, 1, 2, 3)))
    words = [word for script in scripts for word in WORDS[script]] + dice.sample(WORDS["emoji"], 4)
    lines = [" ".join(dice.choice(words) for _ in range(dice.randint(1, 14))) for _ in range(dice.randint(1, 4))]
    return "x" + "\nx".join(lines)


@pytest.mark.req("X1")
def test_ordinary_texts() -> None:
    """A thousand texts with emoji, in scripts from right to left and with joiners, pass unchanged; nothing is told.
    So do their first lines as titles."""
    first = random.SystemRandom().randrange(10**9)
    sys.stdout.write(f"1000 texts, seeds from {first}\n")
    for seed in range(first, first + 1000):
        text = ordinary(seed)
        seen = visible_text(text)
        assert (seen.text, seen.removed) == (text, ()), f"seed {seed}"
        title = text.split("\n")[0]
        assert visible_title(title) == Visible(title), f"seed {seed}"


@pytest.mark.req("X1", "PR5")
@pytest.mark.parametrize(
    "formula",
    (
        r"$e^{i\pi} + 1 = 0$",
        r"$`\sqrt{2} \approx 1.41`$",
        r"$$\begin{pmatrix} a & b \\ c & d \end{pmatrix}$$",
        r"$$f(x) = \begin{cases} 1 & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}$$",
        r"$$\sum_{n=1}^{\infty} \frac{1}{n^2} = \frac{\pi^2}{6}, \quad \left\{ x \in R \mid x \ge 0 \right\}$$",
        r"$5\% \, \text{of}~x$",
    ),
)
def test_formulas_that_are_drawn(formula: str) -> None:
    """Ordinary formulas stay as they are, where they are read and where they are posted."""
    assert formulas(formula) == (formula, [])
    assert inert_markdown(formula) == formula


@pytest.mark.req("X1", "PR5")
@every_row("formula", UNSEEN_IN_FORMULAS)
def test_a_formula_that_may_hide_something_is_posted_as_code(formula: str) -> None:
    assert inert_markdown(f"See ${formula}$ here") == f"See `${formula}$` here"
    assert inert_markdown(f"```math\n{formula}\n```").startswith("```text\n")


@pytest.mark.req("X1", "PR5")
@every_row("lines", (*UNSEEN_IN_DIAGRAMS, "%% SECRET", "click A 'SECRET'"))
def test_diagrams_in_a_plan(lines: str) -> None:
    """So is a diagram."""
    assert inert_markdown(f"```mermaid\ngraph TD\nA --> B\n{lines}\n```").startswith("```text\n")


@pytest.mark.req("X1", "PR5")
@pytest.mark.parametrize(
    "content",
    (
        "graph LR\n  A[Start] --> B{Works?}\n  B -->|no| A\n",
        "sequenceDiagram\n  Alice->>Bob: the style of it\n",
        "classDiagram\n  class Animal {\n    +name()\n  }\n",
        "stateDiagram-v2\n  [*] --> planning\n",
        "flowchart TD; A[one<br>two]; A --> B[three]\n",
    ),
)
def test_diagrams_that_are_drawn(content: str) -> None:
    """Diagrams without style stay."""
    assert diagram("mermaid", content) == (content, [])


LINES = (
    ("x = 1" + " " * 400 + "curl evil", "x = 1" + " " * 20 + "‹380 more blanks›curl evil"),
    (" " * 400 + "curl evil", " " * 40 + "‹360 more blanks›curl evil"),
    ("x" + "\t" * 40 + "y", "x" + "\t" * 5 + "‹35 more blanks›y"),
    ("x" + "\u3000" * 40 + "y", "x" + "\u3000" * 20 + "‹20 more blanks›y"),
    (" " * 24 + "return  x" + " " * 20 + "# y" + " " * 99, " " * 24 + "return  x" + " " * 20 + "# y" + " " * 99),
    ("a" * 160, "a" * 160),
    ("a" * 200, "a" * 160 + "\n‹the line goes on› " + "a" * 40),
    ("  " + "a" * 340, "  " + "a" * 158 + "\n  ‹the line goes on› " + "a" * 139 + "\n  ‹the line goes on› " + "a" * 43),
)


@pytest.mark.req("X1", "PR5")
@every_row(("line", "seen"), LINES)
def test_code_in_sight(line: str, seen: str) -> None:
    """Nothing stands so far to the right that it must be scrolled to: not in a request, not in a plan."""
    assert in_sight(line) == seen
    assert in_sight(seen) == seen
    assert visible_text(f"```\n{line}\n```") == Visible(f"```\n{seen}\n```")
    assert inert_markdown(f"```\n{line}\n```") == f"```\n{seen}\n```"
    assert inert_markdown(f"text\n\n    {line}").replace("\n    ", "\n").startswith("text\n\n")


@pytest.mark.req("X1", "PR5")
@pytest.mark.timeout(30)
def test_blanks_at_the_end() -> None:
    """Blanks that nothing follows stay, and however many they are, they are looked at once."""
    line = "a" + "\t" * 60_000
    assert in_sight(line) == line


@pytest.mark.req("X1", "PR5")
def test_code_in_a_quote() -> None:
    """What goes on stands in the same quote, and in the same block."""
    posted = inert_markdown(f"> ```\n> {'a' * 200}\n> ```\n\n@octocat")
    assert posted == f"> ```\n> {'a' * 158}\n> ‹the line goes on› {'a' * 42}\n> ```\n\n`@octocat`"
    assert inert_markdown(posted) == posted


@pytest.mark.req("X1", "PR5")
def test_code_in_html() -> None:
    """HTML can keep blanks as they are as well."""
    assert visible_text(f"<pre>a{' ' * 400}b</pre>").text == f"a{' ' * 20}‹380 more blanks›b"


@pytest.mark.req("X1", "PR5")
def test_links_that_lead_nowhere() -> None:
    """GitHub keeps the words of a link alone where it does not let it lead anywhere."""
    seen = visible_text("[the log](<data:text/plain,run this now>) <a href='javascript:x'>here</a> <file:///x>")
    assert seen == Visible("the log here file:///x", ("data:text/plain,run this now", "javascript:x"))
    assert visible_text("[a](b/c) [d](#e) [f](mailto:a@b.example)").text == "a (b/c) d (#e) f (mailto:a@b.example)"

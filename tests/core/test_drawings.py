"""Formulas, diagrams and code: what is known to be seen stays, the rest is shown as code or marked."""

import pytest

from bot.core.markdown.inert import inert_markdown
from bot.core.markdown.markup import diagram, formulas, in_sight
from bot.core.markdown.visible import Visible, visible_text
from tests.core.hidden_channels import UNSEEN_IN_DIAGRAMS, UNSEEN_IN_FORMULAS
from tests.rows import every_row

pytestmark = pytest.mark.req("X1", "PR5")


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


@every_row("formula", UNSEEN_IN_FORMULAS)
def test_formulas_in_a_plan(formula: str) -> None:
    """A formula that may hide something is posted as code."""
    assert inert_markdown(f"See ${formula}$ here") == f"See `${formula}$` here"
    assert inert_markdown(f"```math\n{formula}\n```").startswith("```text\n")


@every_row("lines", (*UNSEEN_IN_DIAGRAMS, "%% SECRET", "click A 'SECRET'"))
def test_diagrams_in_a_plan(lines: str) -> None:
    """So is a diagram."""
    assert inert_markdown(f"```mermaid\ngraph TD\nA --> B\n{lines}\n```").startswith("```text\n")


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


@every_row(("line", "seen"), LINES)
def test_code_in_sight(line: str, seen: str) -> None:
    """Nothing stands so far to the right that it must be scrolled to: not in a request, not in a plan."""
    assert in_sight(line) == seen
    assert in_sight(seen) == seen
    assert visible_text(f"```\n{line}\n```") == Visible(f"```\n{seen}\n```")
    assert inert_markdown(f"```\n{line}\n```") == f"```\n{seen}\n```"
    assert inert_markdown(f"text\n\n    {line}").replace("\n    ", "\n").startswith("text\n\n")


@pytest.mark.timeout(30)
def test_blanks_at_the_end() -> None:
    """Blanks that nothing follows stay, and however many they are, they are looked at once."""
    line = "a" + "\t" * 60_000
    assert in_sight(line) == line


def test_code_in_a_quote() -> None:
    """What goes on stands in the same quote, and in the same block."""
    posted = inert_markdown(f"> ```\n> {'a' * 200}\n> ```\n\n@octocat")
    assert posted == f"> ```\n> {'a' * 158}\n> ‹the line goes on› {'a' * 42}\n> ```\n\n`@octocat`"
    assert inert_markdown(posted) == posted


def test_code_in_html() -> None:
    """HTML can keep blanks as they are as well."""
    assert visible_text(f"<pre>a{' ' * 400}b</pre>").text == f"a{' ' * 20}‹380 more blanks›b"


def test_links_that_lead_nowhere() -> None:
    """GitHub keeps the words of a link alone where it does not let it lead anywhere."""
    seen = visible_text("[the log](<data:text/plain,run this now>) <a href='javascript:x'>here</a> <file:///x>")
    assert seen == Visible("the log here file:///x", ("data:text/plain,run this now", "javascript:x"))
    assert visible_text("[a](b/c) [d](#e) [f](mailto:a@b.example)").text == "a (b/c) d (#e) f (mailto:a@b.example)"

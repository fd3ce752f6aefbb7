"""Ways to hide words from people in a comment on GitHub: each text shows "before" and "after" and hides SECRET."""

from typing import Final

UNSEEN_IN_FORMULAS: Final = (
    r"\color{#fefefe}{SECRET}",
    r"\textcolor{snow}{SECRET}",
    r"\color[rgb]{1,1,1}{SECRET}",
    r"\color{#0d1117}{SECRET}",
    r"\definecolor{a}{rgb}{1,1,1} SECRET",
    r"a" + r"\qquad" * 40 + " SECRET",
    r"a" + r"~" * 40 + " SECRET",
    r"a\\[5000em]SECRET",
    r"a\mspace{-900mu}SECRET",
    r"\mmlToken{mi}[mathsize=0.01em]{SECRET}",
    r"\begin{array}{p{500em}} SECRET \end{array}",
    r"\text{a " + "b " * 120 + "SECRET}",
    r"\text{SECRET",
    r"} SECRET {",
)
UNSEEN_IN_DIAGRAMS: Final = (
    "A[SECRET]; style A color:#fefefe",
    "classDef a color:#0d1117\nA[SECRET]:::a",
    "linkStyle 0 color:#fefefe\nA -->|SECRET| B",
    "A@{ label: 'x' }\nA[SECRET]",
    "A[SECRET]\nA[x]",
    "A[<span style='color:#fefefe'>SECRET</span>]",
    f"A[x]{' ' * 400}SECRET",
    "\n".join(f"A{number}[SECRET]" for number in range(200)),
)

HIDDEN: Final = {
    # comments
    "comment": "before <!-- SECRET --> after",
    "comment in a block of its own": "before\n\n<!-- SECRET -->\n\nafter",
    "comment over several blocks": "before\n\n<!--\n\nSECRET\n\n-->\n\nafter",
    "comment in a list": "- before <!-- SECRET -->\n- after",
    "comment in a quote": "> before\n> <!-- SECRET -->\n\nafter",
    "comment in a heading": "# before <!-- SECRET -->\n\nafter",
    "comment in a table": "| before |\n|---|\n| <!-- SECRET --> after |",
    "comment in details": "before\n<details><summary>more</summary>\n\n<!-- SECRET -->\n\n</details>\n\nafter",
    "comment in HTML": "<div>before <!-- SECRET --> after</div>",
    "comment with dashes": "before <!--- SECRET ---> after",
    "unclosed comment": "before after\n\n<!-- SECRET\nmore\n\nmore",
    "unclosed comment in a list, with what follows": "before after\n\n- <!-- hm\n\nSECRET",
    "unclosed comment in a quote, with what follows": "before after\n\n> <!-- hm\n\nSECRET\n\n```\nSECRET\n```",
    "comment that a later block closes": "before\n\n> <!-- hm\n\nSECRET\n\n<div>--> after</div>",
    "comment that is none to Markdown": "before <!--- SECRET **SECRET** SECRET ---> after",
    "code after a comment that is none to Markdown": "before <!--- `SECRET` ![SECRET](x) ---> after",
    "processing instruction": "before <?SECRET?> after",
    "declaration": "before <!DOCTYPE SECRET> after",
    "section": "before <![CDATA[SECRET]]> after",
    # definitions
    "link definition": "before after\n\n[label]: https://example.org/SECRET 'SECRET'",
    "comment by link definition": "before after\n\n[//]: # (SECRET)",
    "comment by an empty link": "before after\n\n[comment]: <> (SECRET)",
    "link definition in a list": "- before after\n\n  [label]: # 'SECRET'",
    "link definition in a quote": "> before after\n>\n> [label]: # 'SECRET'",
    "link definition over lines": "before after\n\n[label]:\nhttps://example.org\n'SECRET\nmore'",
    "title of a link definition that is used": "before [after][label]\n\n[label]: https://example.org 'SECRET'",
    "footnote that nothing refers to": "before after\n\n[^note]: SECRET words that nobody sees.",
    "footnote of one word": "before after\n\n[^note]: SECRET",
    "footnote of several blocks": "before after\n\n[^note]: hm\n\n    SECRET\n\n    - more",
    # pictures and links
    "alt text": "before ![SECRET](https://example.org/a.png) after",
    "title of a picture": "before ![](https://example.org/a.png 'SECRET') after",
    "picture source": "before ![](https://example.org/SECRET.png) after",
    "alt text of a picture by reference": "before ![SECRET][pic] after\n\n[pic]: https://example.org/a.png",
    "picture in a link": "before [![SECRET](https://example.org/a.png)](https://example.org) after",
    "title of a link": "before [after](https://example.org 'SECRET')",
    "link without words": "before [](https://example.org/SECRET) after",
    "link on a code point that nobody sees": "before [&#x200b;](https://example.org/SECRET) after",
    "link without words in HTML": "before <a href='https://example.org/SECRET'></a> after",
    "alt text in HTML": "before <img alt='SECRET' src='x'> after",
    "picture source in HTML": "before <img src='https://example.org/SECRET.png'> after",
    "picture sources": "before <picture><source srcset='SECRET.png'><img src='x'></picture> after",
    "video": "before <video src='x' poster='SECRET'></video> after",
    # attributes and elements
    "attribute": "before <b data-x='SECRET'>after</b>",
    "title": "before <abbr title='SECRET'>after</abbr>",
    "label": "before <span aria-label='SECRET'>after</span>",
    "name": "before <a name='SECRET'>after</a>",
    "class": "<p class='SECRET'>before after</p>",
    "value": "before <input value='SECRET'> after",
    "attribute that ends blocks later": 'before after\n\n<div title="\n\nSECRET\n\n">\n</div>',
    "attribute that ends blocks later, after others": "before after\n\n<div id='a' title='\n\nSECRET\n\n'>\n</div>",
    "attribute that never ends": "before after\n\n<div title='\n\nSECRET\n\n    SECRET",
    "hidden element": "before <span hidden>SECRET</span> after",
    "hidden element in capitals": "before <SPAN HIDDEN>SECRET</SPAN> after",
    "hidden block": "before\n\n<div hidden>\nSECRET\n</div>\n\nafter",
    "hidden block with Markdown in it": "before\n\n<div hidden>\n\nSECRET\n\n- SECRET\n\n</div>\n\nafter",
    "hidden block with code in it": "before\n\n<div hidden>\n\n```\nSECRET\n```\n\n---\n\n</div>\n\nafter",
    "hidden block that is never closed": "before after\n\n<div hidden>\n\nSECRET\n\n| a |\n|---|\n| SECRET |",
    "hidden block in a list": "- before\n\n  <div hidden>\n\n  SECRET\n- after",
    "hidden bold that is never closed": "before after <b hidden>SECRET\n\nSECRET",
    "element within a hidden one": "before <span hidden><b>SECRET</b> SECRET</span> after",
    "style": "before\n\n<style>SECRET</style>\n\nafter",
    "script": "before\n\n<script>\n\nSECRET\n\n</script>\n\nafter",
    "template": "before <template>SECRET</template> after",
    "template over several blocks": "before\n\n<template>\n\nSECRET\n\n</template>\n\nafter",
    "textarea": "before\n\n<textarea>\n\nSECRET\n\n</textarea>\n\nafter",
    "not displayed": "before <span style='display: none'>SECRET</span> after",
    "not visible": "before <p style='Visibility:hidden'>SECRET</p> after",
    "transparent": "before <span style='opacity:0'>SECRET</span> after",
    "of no size": "before <span style='font-size:0px'>SECRET</span> after",
    "white on white": "before <span style='color:#fff'>SECRET</span> after",
    "far away": "before <div style='position:absolute;left:-9999px'>SECRET</div> after",
    # code
    "words after the language of a code block": "before\n\n```py SECRET\nafter\n```",
    "words after the language, with tildes": "before\n\n~~~~ py SECRET\nafter\n~~~~",
    "words for a language of a code block": "before\n\n```do_the_SECRET_now\nafter\n```",
    "comment in a diagram": "before\n\n```mermaid\ngraph TD %% SECRET\nafter\n```",
    "comment in a formula": "before\n\n```math\nx % SECRET\n```\n\nafter",
    "map": 'before\n\n```geojson\n{"SECRET": 1}\n```\n\nafter',
    "settings of a diagram": "before\n\n```mermaid\n---\nconfig: SECRET\n---\ngraph TD\n```\n\nafter",
    "where a click in a diagram leads": 'before\n\n```mermaid\ngraph TD; A\nclick A "SECRET" "SECRET"\n```\n\nafter',
    "what of a diagram is read aloud": "before\n\n```mermaid\ngraph TD\naccDescr { SECRET }\nA\n```\n\nafter",
    "part of a diagram that is not displayed": (
        "before\n\n```mermaid\ngraph TD\nA[SECRET]:::no\nclassDef no display:none\n```\n\nafter"
    ),
    "phantom in a formula": "before $\\phantom{SECRET}x$ after",
    "phantom in a formula of its own": "before\n\n$$\n\\hphantom{SECRET} x\n$$\n\nafter",
    "phantom in a block of math": "before\n\n```math\n\\vphantom{SECRET} x\n```\n\nafter",
    "phantom in a formula in backticks": "before $`\\phantom{SECRET}x`$ after",
    "comment in a formula in a line": "before $x % SECRET\ny$ after",
    "white in a formula": "before $\\color{white}{SECRET}$ after",
    "label of a formula": "before $$x \\label{SECRET}$$ after",
    "where a formula leads": "before $\\href{https://SECRET}{x}$ after",
    "class of a formula": "before $\\class{SECRET}{x}$ after",
    "definition in a formula": "before $\\def\\x{SECRET} y$ after",
    "overlapped in a formula": "before $\\rlap{SECRET} y$ after",
    **{f"formula: {at[:40]}": f"before ${at}$ after" for at in UNSEEN_IN_FORMULAS},
    "formula in a block of math": "before\n\n```math\n\\color{#fefefe}{SECRET}\n```\n\nafter",
    "empty rows of a formula": "before\n\n```math\na\\\\ \\\\ \\\\ SECRET\n```\n\nafter",
    "formula of its own": "before\n\n$$x\\\\[5000em]SECRET$$\n\nafter",
    **{
        f"diagram: {at[:40]}": f"before\n\n```mermaid\ngraph TD\nA --> B\n{at}\n```\n\nafter"
        for at in UNSEEN_IN_DIAGRAMS
    },
    "diagram of a kind that hides": "before\n\n```mermaid\nmindmap\n  SECRET\n```\n\nafter",
    # links that GitHub takes and markdown-it does not
    **{
        f"destination by {scheme}": f"before [after](<{scheme}:text/plain,SECRET now>)"
        for scheme in ("data", "javascript", "vbscript", "file")
    },
    "destination with an open parenthesis": "before [after](<>) [after](x(:SECRET )",
    "cells beyond a head": "before\n\n| after |\n|---|\n| x | SECRET |",
    "cells beyond a head of one column": "before\n\nafter\n|-|\nx | SECRET",
    "footnote that an address seems to refer to": "before <after:[^a]> https://e.example/[^a]\n\n[^a]: SECRET",
    "link definition with an open parenthesis": "before after\n\n[a]: x(SECRET",
    # too small, beside what is shown, the other way round
    "words for readers without ruby": "before <ruby>a<rp>SECRET</rp><rt>b</rt></ruby> after",
    "words for readers without video": "before <video src='x'>SECRET</video> after",
    "too small": f"before {'<sub>' * 30}SECRET{'</sub>' * 30} after",
    "too small, mixed": "before <sub><sup><small><sub><b>SECRET</b></sub></small></sup></sub> after",
    "turned round": "before <bdo dir='rtl'>SECRET</bdo> after",
    "second footnote of a label": "before[^a] after\n\n[^a]: one\n\n[^a]: SECRET",
    # entities
    "entities in a hidden element": "before <span hidden>&#83;ECRET</span> after",
    "entities in an attribute": "before <b title='&#83;ECRET SECRET'>after</b>",
}


def tags(words: str) -> str:
    """Spell words with the tag code points, which nobody sees."""
    return "".join(chr(0xE0000 + ord(sign)) for sign in words)


def selectors(words: str) -> str:
    return "".join(chr(0xE0100 + ord(sign)) for sign in words)


def bits(words: str, zero: str = "\u200b", one: str = "\u200c") -> str:
    return "".join(one if ord(sign) >> at & 1 else zero for sign in words for at in range(8))


SPELLED: Final = {
    "tags": tags("SECRET"),
    "tags within a flag": f"\U0001f3f4{tags('SECRET')}\U000e007f",
    "tags as entities": "".join(f"&#x{ord(sign):X};" for sign in tags("SECRET")),
    "selectors": selectors("SECRET"),
    "selectors behind an emoji": f"😀{selectors('SECRET')}",
    "zero width": bits("SECRET"),
    "zero width as entities": bits("SECRET", "&ZeroWidthSpace;", "&zwnj;"),
    "joiners behind a letter of Arabic": f"ب{bits('SECRET', chr(0x200C), chr(0x200D))}",
    "bidi overrides": f"\u202e{bits('SECRET', chr(0x202A), chr(0x202C))}",
    "invisible operators": bits("SECRET", "\u2061", "\u2062"),
    "fillers": bits("SECRET", "\u3164", "\uffa0"),
    "blank Braille": bits("SECRET", "\u2800", "\u115f"),
    "private use": "".join(chr(0xF0000 + ord(sign)) for sign in "SECRET"),
    "interlinear notes": f"\ufff9{bits('SECRET', chr(0xFFFA), chr(0xFFFB))}",
    "soft hyphens": bits("SECRET", "\xad", "\u034f"),
    "styles behind a letter": f"a{bits('SECRET', chr(0xFE0E), chr(0xFE0F))}",
}

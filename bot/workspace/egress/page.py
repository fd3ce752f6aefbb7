"""Converts a page's bytes to text: text passes, HTML becomes Markdown, everything else is refused (T4)."""

import re
from typing import Final

from bot.core.errors import Refused

LONGEST: Final = 100_000
"""Characters of a page that are passed on."""
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})
_SELECTORS: Final = re.compile("[\ufe00-\ufe0e\U000e0100-\U000e01ef]")
"""Variation selectors, in which text can be hidden; all others of these are not printable."""
_CHARSETS: Final = frozenset({"utf-8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "windows-1252", "utf-16"})


def page_text(body: bytes, content_type: str) -> tuple[str, bool]:
    """Return a page as text, and whether it was cut; raises Refused if it is not text."""
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if not (kind.startswith("text/") or kind in _HTML | _TEXT or kind.endswith(("+json", "+xml"))):
        raise Refused("the page is not text", where=ascii(kind)[1:-1][:100] or "no type", fix="use another page")
    text = body.decode(_charset(parameters), "replace")
    if kind in _HTML:
        text = _markdown(text)
    text = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text[: LONGEST + 1])
    text = _SELECTORS.sub("", text)
    return text[:LONGEST].strip(), len(text) > LONGEST


def _charset(parameters: str) -> str:
    """Return the charset that a content type names, or UTF-8 if it names none that is supported."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        charset = value.strip().strip("\"'").lower()
        if name.strip().lower() == "charset" and charset in _CHARSETS:
            return charset
    return "utf-8"


def _markdown(html: str) -> str:
    """Convert HTML, without the parts that a page hides from people."""
    import html_to_markdown

    options = html_to_markdown.ConversionOptions(extract_metadata=False, skip_images=True)
    try:
        return html_to_markdown.convert(html, options).content or ""
    except Exception as error:  # the library's errors have no other common base class
        raise Refused("the page cannot be read", fix="use another page") from error

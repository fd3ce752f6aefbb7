"""Texts as HTML in REST answers (`body_html`), with the addresses of pictures as GitHub renders them.

An attachment gets a signed address that works for some minutes, and a picture elsewhere goes through GitHub's proxy.
https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#media-types
https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-anonymized-urls
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from html import escape, unescape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

FORMATS = ("full+json", "html+json")
_ASSET = re.compile(r"https://[^/]+/user-attachments/assets/([0-9a-f-]{36})")
_KEPT = re.compile(r"https://(?:private-)?user-images\.githubusercontent\.com/")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SOURCE = re.compile(r"(<img\b[^>]*?\bsrc=)([\"'])(.*?)\2", re.IGNORECASE | re.DOTALL)


def with_html(body: Any, accept: str) -> Any:
    """Return an answer with `body_html` beside each text, if the media type asks for it."""
    if not any(form in accept for form in FORMATS):
        return body
    if isinstance(body, list):
        return [with_html(each, accept) for each in body]
    return {**body, "body_html": render(body["body"] or "")} if isinstance(body, dict) and "body" in body else body


def render(text: str) -> str:
    """Return a text as HTML. What people do not see is gone, and pictures have the addresses that a browser gets."""
    return _SOURCE.sub(_sign_address, _COMMENT.sub("", _markdown().render(text)))


def _sign_address(match: re.Match[str]) -> str:
    source = unescape(match[3])
    name = hashlib.sha256(source.encode()).hexdigest()
    if asset := _ASSET.fullmatch(source):
        source = f"https://private-user-images.githubusercontent.com/1/2-{asset[1]}.png?jwt=eyJ.{name}.x"
    elif not _KEPT.match(source):
        source = f"https://camo.githubusercontent.com/{name}/{source.encode().hex()}"
    return f'{match[1]}"{escape(source)}"'


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True})

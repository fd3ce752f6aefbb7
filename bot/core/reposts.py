"""Texts in which GitHub put somebody else's words into a person's new issue, without quoting them.

"Reference in new issue" and "Create issue from discussion" make the person who clicks the author of the whole text.
https://docs.github.com/en/issues/tracking-your-work-with-issues/using-issues/creating-an-issue
"""

import re
from typing import Final

_ORIGIN: Final = re.compile(
    r"(?<![A-Za-z])Originally posted by (?:@|\*\*)|<div type=['\"]discussions-op-text", re.IGNORECASE
)


def is_repost(text: str) -> bool:
    """Return whether a text says that somebody posted it, or a part of it, elsewhere before."""
    return _ORIGIN.search(text) is not None

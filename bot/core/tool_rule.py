"""The written form of a rule about calls of tools: ``Tool`` or ``Tool(pattern)``, such as ``Bash(git diff:*)``.

What a pattern covers is decided in bot/agent/permissions.
"""

import re
from typing import Final

from bot.core.errors import Misconfigured
from bot.core.hosts import require_host_pattern

FETCH: Final = "WebFetch"
DOMAIN: Final = "domain:"
EVERYTHING: Final = "*"
_RULE: Final = re.compile(r"(?P<tool>[A-Za-z_]+)(?:\((?P<pattern>.*)\))?")


def split_rule(text: str) -> tuple[str, str]:
    """Return the tool and the pattern of a rule; ``*`` stands for no pattern.

    Raises Misconfigured, with the form that the rule should have.
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise Misconfigured(f"not a tool rule: {text!r}", where="tools", fix="write Tool or Tool(pattern)")
    tool, covered = match["tool"], match["pattern"] or EVERYTHING
    if tool == FETCH and covered.removeprefix(DOMAIN) != EVERYTHING:
        if not covered.startswith(DOMAIN):
            raise Misconfigured(f"not a rule for {FETCH}: {text!r}", where="tools", fix=f"write {FETCH}(domain:NAME)")
        # A name in another spelling would match nothing, and so deny nothing.
        require_host_pattern(covered.removeprefix(DOMAIN))
    return tool, covered

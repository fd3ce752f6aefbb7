"""Escapes text of others before it enters a history: data must not look like the harness (S11a)."""

import re


def escaped(text: str) -> str:
    """Escape what imitates reminders, roles or harness markers."""
    return re.sub(
        r"(?im)(</?\s*system-reminder\b|^\s*(?:human|user|assistant|system)\s*:|^\s*\[harness)",
        lambda match: match.group(0).replace("<", "\\<").replace(":", "\\:").replace("[", "\\["),
        text,
    )

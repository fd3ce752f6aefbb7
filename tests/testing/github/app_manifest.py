"""A manifest as people send it to GitHub, for the tests of what becomes of it."""

import json
from typing import Any, Final

FACTS: Final[dict[str, Any]] = {
    "name": "Plangate Acme", "url": "https://plangate.acme.example",
    "hook_attributes": {"url": "https://plangate.acme.example/webhooks/github"},
    "redirect_url": "http://127.0.0.1:1/setup/callback", "public": False,
    "default_permissions": {"issues": "write", "metadata": "read"}, "default_events": ["issues", "issue_comment"],
}  # fmt: skip
MANIFEST: Final = json.dumps(FACTS)

"""The response of GET /v1/models/{id}: a model and its capabilities.

https://platform.claude.com/docs/en/api/beta/models/retrieve
"""

from __future__ import annotations

from bot.testing.model.models import ALL_EFFORTS, Model
from bot.testing.model.rules_context import COMPACT_BETA
from bot.testing.model.wire import Json

THINKING_FORMS = ("adaptive", "disabled", "enabled")


def model_info(model: Model, betas: str = "") -> Json:
    """Return one model as the API describes it to a request with these betas.

    Compaction is listed only if its beta is named: https://platform.claude.com/docs/en/api/beta/models/retrieve
    """
    capabilities = _capabilities(model)
    if COMPACT_BETA in betas:
        summarize = {"supported": model.compacts}
        capabilities["compaction"] = {**summarize, "summarize": summarize}
    words = model.id.removeprefix("claude-").split("-")
    return {
        "type": "model",
        "id": model.id,
        "display_name": f"Claude {words[0].title()} {'.'.join(words[1:3])}",
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": model.line,
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": capabilities,
    }


def _capabilities(model: Model) -> Json:
    yes, no = {"supported": True}, {"supported": False}
    effort = {level: yes if level in model.efforts else no for level in ALL_EFFORTS}
    forms = {form: yes if form in model.thinking else no for form in THINKING_FORMS}
    edits = dict.fromkeys(("clear_tool_uses_20250919", "clear_thinking_20251015", "compact_20260112"), yes)
    plain = ("batch", "citations", "code_execution", "image_input", "pdf_input", "structured_outputs")
    return {
        **dict.fromkeys(plain, yes),
        "context_management": {"supported": True, **edits},
        "effort": {"supported": bool(model.efforts), **effort},
        "server_tools": {"supported": True, "code_execution": yes, "web_search": yes},
        "thinking": {"supported": True, "types": forms},
    }

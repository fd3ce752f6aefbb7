"""All tools, by name, and their schemas as the model gets them (M5)."""

from collections.abc import Iterable, Mapping
from typing import Any

from bot.agent.permissions import Gate
from bot.agent.tools.ask_user import ASK
from bot.agent.tools.bash import BASH
from bot.agent.tools.edit import EDIT, MULTI_EDIT
from bot.agent.tools.exit_plan_mode import PLAN
from bot.agent.tools.grep import GREP
from bot.agent.tools.look import GLOB, LS
from bot.agent.tools.notebook import NOTEBOOK_EDIT, NOTEBOOK_READ
from bot.agent.tools.read import READ
from bot.agent.tools.todo import TODO_READ, TODO_WRITE
from bot.agent.tools.tool import Tool
from bot.agent.tools.web_fetch import WEB_FETCH, offered
from bot.agent.tools.web_search import WEB_SEARCH, searches
from bot.agent.tools.write import WRITE
from bot.core.transcript import Json
from bot.ports import Web

LOOKING = (READ, NOTEBOOK_READ, LS, GLOB, GREP, BASH)
EDITING = (WRITE, EDIT, MULTI_EDIT, NOTEBOOK_EDIT)
LISTING = (TODO_READ, TODO_WRITE)
READING_WEB = (WEB_FETCH, WEB_SEARCH)
"""Beside the loop, and only where a rule opens them."""
ALL = (*LOOKING, *EDITING, *LISTING, PLAN, ASK)


def web_tools(web: Web | None, gate: Gate) -> tuple[Tool, ...]:
    """Give the tools of the web that a session gets: those that a rule opens."""
    fetching = (WEB_FETCH,) if offered(web, gate) else ()
    return (*fetching, WEB_SEARCH) if searches(gate.rules) else fetching


def by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    """Index tools by name, sorted: the order in which the model sees them."""
    return dict(sorted((tool.name, tool) for tool in tools))


def schemas(tools: Mapping[str, Tool]) -> tuple[Json, ...]:
    """Give the tool definitions for a request; equal tools give equal bytes."""
    return tuple(
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": _plain(tool.input_model.model_json_schema()),
        }
        for tool in tools.values()
    )


def _plain(schema: Any) -> Any:
    """Drop titles, docstrings, defaults and null alternatives from a schema: the model does not need them, and each
    prompt pays for them."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in {"title", "description", "default"}}
    options = [option for option in kept.pop("anyOf", []) if option != {"type": "null"}]
    if options:
        kept |= options[0] if len(options) == 1 else {"anyOf": options}
    return {
        key: {name: _plain(inner) for name, inner in value.items()} if key in {"properties", "$defs"} else _plain(value)
        for key, value in kept.items()
    }

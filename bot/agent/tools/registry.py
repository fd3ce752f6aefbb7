"""All tools, by name, and their schemas as the model gets them (M5)."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from bot.agent.resources import SessionResources
from bot.agent.tools.github_read import GITHUB_READ_TOOL
from bot.agent.tools.session_tools import ASK, PLAN, TODO_READ, TODO_WRITE
from bot.agent.tools.tool import Tool, ToolInput
from bot.agent.tools.toolhost_tools import (
    BASH,
    BASH_OUTPUT,
    EDIT,
    GLOB,
    GREP,
    KILL_SHELL,
    LS,
    MULTI_EDIT,
    NOTEBOOK_EDIT,
    NOTEBOOK_READ,
    READ,
    WRITE,
)
from bot.agent.tools.web import WEB_FETCH, WEB_SEARCH
from bot.core.transcript import Json

LOOKING = (READ, NOTEBOOK_READ, LS, GLOB, GREP, BASH)
EDITING = (WRITE, EDIT, MULTI_EDIT, NOTEBOOK_EDIT)
BACKGROUND = (BASH_OUTPUT, KILL_SHELL)
"""For agents that have Bash and may leave plan mode; others start nothing in the background."""
LISTING = (TODO_READ, TODO_WRITE)
READING_WEB = (WEB_FETCH, WEB_SEARCH)
"""Web tools, which run in no sandbox. A session gets them only where a rule opens them."""
READING_GITHUB = (GITHUB_READ_TOOL,)
"""Runs in no sandbox. A session gets it only if its thread is on GitHub."""
ALL = (*LOOKING, *BACKGROUND, *EDITING, *LISTING, PLAN, ASK)

_OMITTED: Final = frozenset({"title", "description", "default"})
"""Schema keywords that a model does not need."""
_UNSUPPORTED: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "pattern"})
"""Keywords that no strict schema may have. The input is validated against them when a call arrives.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
"""


def optional_tools(resources: SessionResources) -> tuple[Tool, ...]:
    """Return the tools that only some threads have: web tools that an allow rule opens, and GitHubRead on GitHub.

    WebFetch needs a rule that opens a host; WebSearch needs one for every query.
    """
    rules = resources.gate.rules.allow
    offers = {
        WEB_FETCH: resources.web is not None and any(rule.tool == WEB_FETCH.name for rule in rules),
        WEB_SEARCH: any(rule.tool == WEB_SEARCH.name and rule.pattern == "*" for rule in rules),
        GITHUB_READ_TOOL: resources.repository is not None,
    }
    return tuple(tool for tool, is_offered in offers.items() if is_offered)


def by_name(tools: Iterable[Tool]) -> Mapping[str, Tool]:
    """Return tools indexed by name and sorted, which is the order in which the model sees them."""
    return dict(sorted((tool.name, tool) for tool in tools))


def schemas(tools: Mapping[str, Tool]) -> tuple[Json, ...]:
    """Return the tool definitions for a request. Equal tools yield equal bytes."""
    return tuple(map(_definition, tools.values()))


def _definition(tool: Tool) -> Json:
    strict = {"strict": True} if tool.strict else {}
    schema = _input_schema(tool.input_model, _OMITTED | _UNSUPPORTED if tool.strict else _OMITTED)
    return {"name": tool.name, "description": tool.description, "input_schema": schema, **strict}


@cache
def _input_schema(model: type[ToolInput], dropped: frozenset[str]) -> Json:
    """Return the schema of a tool's input. The result is cached, because making a schema takes milliseconds."""
    schema: Json = _plain(model.model_json_schema(), dropped)
    return schema


def _plain(schema: Any, dropped: frozenset[str]) -> Any:
    """Return a schema without the `dropped` keywords and null alternatives, because every prompt pays for them."""
    if isinstance(schema, list):
        return [_plain(item, dropped) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in dropped}
    options = [option for option in plain.pop("anyOf", []) if option != {"type": "null"}]
    if options:
        plain |= options[0] if len(options) == 1 else {"anyOf": options}
    return {key: _inside(key, value, dropped) for key, value in plain.items()}


def _inside(key: str, value: Any, dropped: frozenset[str]) -> Any:
    """Return the value of a keyword, simplified. The keys below "properties" and "$defs" are names, not keywords."""
    if key in {"properties", "$defs"}:
        return {name: _plain(inner, dropped) for name, inner in value.items()}
    return _plain(value, dropped)

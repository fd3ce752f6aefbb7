"""The rules for tool definitions.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bot.testing.model.rules_schema import closed_world, complexity, unsupported_keywords, well_formed
from bot.testing.model.subject import Finding, Subject, extra_fields, missing_fields
from bot.testing.model.wire import Json, blocks

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_STRICT = 20
SEARCH = "web_search_20250305"
SEARCH_FIELDS = frozenset("allowed_domains blocked_domains cache_control max_uses name type".split())
DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(/\S*)?")
FIELDS = frozenset("cache_control description input_schema name strict type".split())


def tools(subject: Subject) -> Iterator[Finding]:
    """Check that each tool is well formed, and that names are unique."""
    declared = subject.body.get("tools")
    if declared is not None and not isinstance(declared, list):
        yield "tools: Input should be a valid list"
        return
    for index, tool in enumerate(declared or []):
        if not isinstance(tool, dict):
            yield f"tools.{index}: Input should be an object"
        elif tool.get("type") in (None, "custom"):
            yield from _custom(tool, f"tools.{index}.custom")
        elif tool["type"] == SEARCH:
            yield from _web_search(tool, f"tools.{index}.{SEARCH}")
        else:
            kind = tool["type"]
            yield f"tools.{index}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    names = [str(tool["name"]) for tool in declared or [] if "name" in tool]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."


# https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
def _web_search(tool: Json, place: str) -> Iterator[Finding]:
    yield from extra_fields(tool, SEARCH_FIELDS, f"{place}.")
    if tool.get("name") != "web_search":
        yield f"{place}.name: Input should be 'web_search'"
    uses = tool.get("max_uses")
    if uses is not None and (not isinstance(uses, int) or uses < 1):
        yield f"{place}.max_uses: Input should be greater than 0"
    if tool.get("allowed_domains") and tool.get("blocked_domains"):
        yield f"{place}: only one of `allowed_domains` and `blocked_domains` may be given"
    for name in ("allowed_domains", "blocked_domains"):
        for domain in tool.get(name) or []:
            if not isinstance(domain, str) or not DOMAIN.fullmatch(domain):
                yield f"{place}.{name}: {domain!r} is not a bare domain"


def _custom(tool: Json, place: str) -> Iterator[Finding]:
    yield from extra_fields(tool, FIELDS, f"{place}.")
    yield from missing_fields(tool, ("name", "input_schema"), f"{place}.")
    if not isinstance(tool["name"], str) or not NAME.fullmatch(tool["name"]):
        yield f"{place}.name: String should match pattern '^{NAME.pattern}$'"
    schema = tool["input_schema"]
    if not isinstance(schema, dict):
        yield f"{place}.input_schema: Input should be an object"
    elif schema.get("type") != "object":
        yield f"{place}.input_schema.type: Input should be 'object'"
    elif any(schema.get(keyword) for keyword in ("anyOf", "oneOf", "allOf")):
        yield f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
    else:
        yield from well_formed(schema, f"{place}.input_schema")
    if not isinstance(tool.get("description", ""), str):
        yield f"{place}.description: Input should be a valid string"


# https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
def strictness(subject: Subject) -> Iterator[Finding]:
    """Check that the strict schemas and the output format compile to one grammar of limited size."""
    strict = [
        (f"tools.{i}.custom", tool) for i, tool in enumerate(blocks(subject.body.get("tools"))) if tool.get("strict")
    ]
    if len(strict) > MAX_STRICT:
        yield (
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MAX_STRICT}. "
            "Try reducing the number of tools marked as strict."
        )
    schemas = [(place, tool["input_schema"]) for place, tool in strict if "input_schema" in tool]
    for place, schema in schemas:
        yield from closed_world(schema, place)
        yield from unsupported_keywords(schema, place)
    form = (subject.body.get("output_config") or {}).get("format")
    if form is not None:
        yield from closed_world(form["schema"], "output_config.format.schema")
        schemas.append(("", form["schema"]))
    yield from complexity([schema for _, schema in schemas])

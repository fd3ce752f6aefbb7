"""One job: a server of the Messages API that knows less than Anthropic's, as compatible servers and proxies do.

What it lacks is named as in requests: a beta, a field (`output_config`, `output_config.effort`, `tools.strict`), or
`bearer` for a server that wants the key in the header x-api-key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from bot.testing.model.error import ApiError, invalid
from bot.testing.model.wire import Json, blocks

BEARER = "bearer"


def unknown_part(headers: Mapping[str, str], body: Json, lacks: Collection[str]) -> ApiError | None:
    """The error for the first part of a request that the server does not know; None where it knows all."""
    if BEARER in lacks and not headers.get("x-api-key"):
        return ApiError(401, "x-api-key header is required")
    for beta in headers.get("anthropic-beta", "").split(","):
        if beta.strip() in lacks:
            # The words of the service; https://platform.claude.com/docs/en/api/beta-headers
            return invalid(f"Unexpected value(s) `{beta.strip()}` for the `anthropic-beta` header.")
    extra = next((place for name, place in _fields(body) if name in lacks), None)
    return invalid(f"{extra}: Extra inputs are not permitted") if extra else None


def _fields(body: Json) -> Iterator[tuple[str, str]]:
    """Each field of a body with the place where errors say that it is."""
    for name, value in body.items():
        yield name, name
        if isinstance(value, dict):
            tag = f".{value['type']}" if "type" in value else ""
            yield from ((f"{name}.{inner}", f"{name}{tag}.{inner}") for inner in value)
    for index, tool in enumerate(blocks(body.get("tools"))):
        yield from ((f"tools.{inner}", f"tools.{index}.custom.{inner}") for inner in tool)

"""A Messages API server with fewer features than Anthropic's, like compatible servers and proxies.

`lacks` names the missing features as requests do: a beta, a field (`output_config`, `output_config.effort`,
`tools.strict`), or `bearer` for a server that requires the key in the header x-api-key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from bot.testing.model.wire import ApiError, Json, blocks, invalid

BEARER = "bearer"


def unknown_part(headers: Mapping[str, str], body: Json, lacks: Collection[str]) -> ApiError | None:
    """Return the error for the first part of a request that the server does not support, or None."""
    if BEARER in lacks and not headers.get("x-api-key"):
        return ApiError(401, "x-api-key header is required")
    for beta in headers.get("anthropic-beta", "").split(","):
        if beta.strip() in lacks:
            # The service's wording; https://platform.claude.com/docs/en/api/beta-headers
            return invalid(f"Unexpected value(s) `{beta.strip()}` for the `anthropic-beta` header.")
    extra = next((place for name, place in _fields(body) if name in lacks), None)
    return invalid(f"{extra}: Extra inputs are not permitted") if extra else None


def _fields(body: Json) -> Iterator[tuple[str, str]]:
    """Yield each field of a body with its place as errors name it."""
    for name, value in body.items():
        yield name, name
        if isinstance(value, dict):
            tag = f".{value['type']}" if "type" in value else ""
            yield from ((f"{name}.{inner}", f"{name}{tag}.{inner}") for inner in value)
    for index, tool in enumerate(blocks(body.get("tools"))):
        yield from ((f"tools.{inner}", f"tools.{index}.custom.{inner}") for inner in tool)

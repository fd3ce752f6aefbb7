"""The token endpoint of workload identity. It exchanges an identity token, and records each exchange.

An issued token opens the API until it expires, and only for requests that name the beta of such tokens.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bot.testing.model.wire import ApiError, Json, invalid

PREFIX = "sk-ant-oat01-"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
NEEDED = ("assertion", "federation_rule_id", "organization_id")


@dataclass(slots=True)
class Federation:
    """The tokens of one simulated API. `lifetime` is the seconds each token is valid."""

    clock: Callable[[], float]
    lifetime: int = 600
    workspaces: int = 1
    """How many workspaces the rule enables. With more than one, the request must name one."""
    exchanges: list[Json] = field(default_factory=list)
    """The bodies of all granted exchanges, in order."""
    _given: dict[str, float] = field(default_factory=dict)

    def exchange(self, raw: bytes, headers: Mapping[str, str]) -> Json | ApiError:
        """Return a token for a JWT, or the error. The JWT's content is not checked."""
        body = json.loads(raw or b"{}")
        if "oidc-federation-2026-04-01" not in headers.get("anthropic-beta", ""):
            return invalid("anthropic-beta: oidc-federation-2026-04-01 is required")
        if body.get("grant_type") != GRANT or not all(body.get(name) for name in NEEDED):
            return invalid(f"grant_type must be {GRANT}, with {', '.join(NEEDED)}")
        if body["assertion"].count(".") != 2:
            return ApiError(401, "the identity token matches no federation rule")
        if self.workspaces > 1 and not body.get("workspace_id"):
            return ApiError(401, "workspace_id is required: the federation rule enables more than one workspace")
        token = PREFIX + secrets.token_hex(16)
        self._given[token] = self.clock() + self.lifetime
        self.exchanges.append(body)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    def refusal(self, headers: Mapping[str, str]) -> ApiError | None:
        """Return the error for a request with an invalid token of this API, or None. Other keys are not checked."""
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if not token.startswith(PREFIX):
            return None
        if self.clock() >= self._given.get(token, float("-inf")):
            return ApiError(401, "invalid bearer token")
        if "oauth-2025-04-20" not in headers.get("anthropic-beta", ""):
            return ApiError(401, "OAuth authentication is currently not supported.")
        return None

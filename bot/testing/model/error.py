"""One job: an error of the Messages API as a value, in its wire format."""

from __future__ import annotations

from dataclasses import dataclass

from bot.testing.model.wire import Json

# https://platform.claude.com/docs/en/api/errors
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class ApiError:
    """A refusal: an HTTP status, an error type, a message, and for some errors a machine-readable code."""

    status: int
    message: str
    type: str = ""
    code: str | None = None

    def body(self, request_id: str) -> Json:
        """Return the JSON object that the API responds with."""
        error: Json = {"type": self.type or TYPES.get(self.status, "api_error"), "message": self.message}
        if self.code is not None:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str, *, code: str | None = None) -> ApiError:
    """Return a 400 invalid_request_error with this message."""
    return ApiError(400, message, code=code)

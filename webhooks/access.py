"""Decides who may read the service's data: callers with the API token or, at a service that is not public and has none,
programs on this machine."""

import hmac
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request

from bot.config.settings import Settings
from webhooks.problems import Problem

_FORWARDED: Final = frozenset({"forwarded", "via", "x-real-ip"})
"""Headers that proxies add, besides those that begin with x-forwarded-."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1"})
_NAMES: Final = _LOOPBACK | {"localhost"}


def may_read(settings: Settings, request: Request) -> bool:
    """Return whether a caller has the API token or, at a service with neither a token nor a public URL, whether it is a
    program on this machine.

    A proxy on this machine looks like such a program, whoever its client is, if it adds no header and names this
    machine as the host, as nginx does by default. So once a token or a public URL is set, only the token counts (W1b).
    """
    if token := settings.github.api_token.reveal().encode():
        presented = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
        return hmac.compare_digest(presented, token)
    return is_served_locally(settings, request)


def is_served_locally(settings: Settings, request: Request) -> bool:
    """Return whether a request is one of this machine to a service that is meant for this machine alone."""
    return not settings.service.public_url and is_local(request)


def is_local(request: Request) -> bool:
    """Return whether the request comes from this machine, names this machine, and did not pass a proxy.

    A page on the internet can have its own name lead to 127.0.0.1 (DNS rebinding) and so have a browser here read what
    only this machine may read. Such a request carries that page's name.
    """
    local = request.client is not None and request.client.host in _LOOPBACK and _names_this_machine(request)
    return local and not any(name in _FORWARDED or name.startswith("x-forwarded-") for name in request.headers)


def _names_this_machine(request: Request) -> bool:
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname in _NAMES
    except ValueError:  # a bracket without its pair
        return False


def require_operator(settings: Settings, request: Request) -> None:
    """Raise Problem for everybody but the operator, who may read everything."""
    if not may_read(settings, request):
        fix = "send the header `Authorization: Bearer` with PLANGATE_API_TOKEN, which the service must have, too"
        raise Problem(401, "a bearer token is needed", "Authorization", fix, headers={"www-authenticate": "Bearer"})

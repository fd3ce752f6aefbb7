"""Apps that are made from a manifest: which manifests GitHub accepts, and the code of each new App.

https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from bot.testing.github.credentials import LEVELS, register_app
from bot.testing.github.entities import App, User
from bot.testing.github.world import GitHubState

CODE_LIFE: Final = timedelta(hours=1)
LONGEST_NAME: Final = 34
"""https://docs.github.com/en/apps/creating-github-apps/registering-a-github-app/registering-a-github-app"""
MOST_CALLBACKS: Final = 10
MISTAKEN: Final = "Invalid GitHub App configuration"


class BadManifestError(Exception):
    """GitHub does not accept the manifest; the text is what its page says."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest asks for."""

    name: str
    homepage: str
    hook_url: str
    redirect_url: str
    permissions: dict[str, str]
    events: tuple[str, ...]
    callback_urls: tuple[str, ...] = ()


def parse_manifest(text: str) -> Manifest:
    """Return the manifest in a form's field. Raises BadManifestError."""
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise BadManifestError(f"{MISTAKEN}: the manifest is not a JSON object")
    hook = fields.get("hook_attributes", {})
    permissions, events = fields.get("default_permissions", {}), fields.get("default_events", [])
    if not _is_url(fields.get("url")):
        raise BadManifestError(f"{MISTAKEN}: 'url' wasn't supplied")
    if not _is_url(fields.get("redirect_url")):
        raise BadManifestError(f"{MISTAKEN}: 'redirect_url' is not a URL")
    if not all(level in LEVELS for level in permissions.values()):
        raise BadManifestError(f"{MISTAKEN}: default permission records resource is not included in the list")
    _check_hook(hook.get("url"))
    urls = fields["url"], hook["url"], fields["redirect_url"]
    callbacks = fields.get("callback_urls", [])
    if len(callbacks) > MOST_CALLBACKS or not all(map(_is_url, callbacks)):
        raise BadManifestError(f"{MISTAKEN}: 'callback_urls' are at most {MOST_CALLBACKS} URLs")
    return Manifest(str(fields.get("name", "")), *urls, permissions, tuple(events), tuple(callbacks))


def create_app(world: GitHubState, manifest: Manifest, name: str, owner: User) -> App:
    """Register the App of a manifest under the name that its owner settled on. Raises BadManifestError."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug or len(name) > LONGEST_NAME:
        raise BadManifestError(f"Name must have 1 to {LONGEST_NAME} characters")
    if slug in {app.slug for app in world.apps.values()}:
        raise BadManifestError("Name has already been taken")
    plain = register_app(world, slug, owner=owner.login, permissions=manifest.permissions)
    created = replace(
        plain,
        name=name,
        events=manifest.events,
        callback_urls=manifest.callback_urls,
        homepage=manifest.homepage,
        client_secret=secrets.token_hex(20),
    )
    world.apps[created.id] = created
    return created


def redirect_with_code(world: GitHubState, app: App, manifest: Manifest, state: str) -> str:
    """Return the address to which GitHub sends the person: the manifest's, with a new code and the state."""
    code = secrets.token_hex(20)
    world.manifest_codes[code] = app, manifest.hook_url, world.now()
    joint = "&" if urlsplit(manifest.redirect_url).query else "?"
    return manifest.redirect_url + joint + urlencode({"code": code, **({"state": state} if state else {})})


def take_app(world: GitHubState, code: str) -> tuple[App, str] | None:
    """Return the App that a code stands for and its webhook, once and within an hour; otherwise None."""
    app, hook_url, created_at = world.manifest_codes.pop(code, (None, "", world.now()))
    if app is None or world.now() - created_at > CODE_LIFE:
        return None
    return world.apps[app.id], hook_url


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and urlsplit(value).scheme in {"http", "https"}


def _check_hook(url: Any) -> None:
    if not _is_url(url):
        raise BadManifestError(f"{MISTAKEN}: Hook url wasn't supplied")
    host = urlsplit(url).hostname or ""
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    if is_local:
        raise BadManifestError(
            f"{MISTAKEN}: Hook url is not supported because it isn't reachable over the public Internet ({host})"
        )

"""Apps, installations, and tokens of the simulated GitHub, and the account behind each credential."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bot.testing.github.entities import App, Event, Installation, Repository, Token, User
from bot.testing.github.world import ACTIONS_BOT, GitHubState, NotAllowedError

PERMISSIONS: Mapping[str, str] = {
    "metadata": "read", "contents": "write", "issues": "write", "pull_requests": "write", "checks": "write",
    "actions": "read", "members": "read",
}  # fmt: skip
EVENTS = ("issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment",
          "push", "check_run")  # fmt: skip
TOKEN_LIFE = timedelta(hours=1)
JWT_LIFE = timedelta(minutes=10)
CLOCK_DRIFT = 60
"""https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app (JWT: at most 10 minutes)"""
LEVELS = ("none", "read", "write", "admin")


def register_app(world: GitHubState, slug: str, *, owner: str, permissions: Mapping[str, str] = PERMISSIONS) -> App:
    with world.lock:
        private, public = _key_pair()
        app = App(
            id=world.small_id(), slug=slug, name=slug.title(), owner=world.add_user(owner).id,
            bot=world.add_user(f"{slug}[bot]", "Bot").id, pem=private, public_keys=(public,),
            webhook_secret=secrets.token_hex(20), created_at=world.now(),
            permissions={"metadata": "read", **permissions}, events=EVENTS, client_secret=secrets.token_hex(20),
            callback_urls=("http://127.0.0.1/sign-in/callback",),
        )  # fmt: skip
        world.apps[app.id] = app
        return app


def install(world: GitHubState, app: App, account: str, repositories: list[Repository] | None = None) -> Installation:
    with world.lock:
        installation = Installation(
            id=world.small_id(), app=app.id, account=world.user(account).id, created_at=world.now(),
            permissions=app.permissions,
            repositories=None if repositories is None else frozenset(each.id for each in repositories),
        )  # fmt: skip
        world.installations[installation.id] = installation
        world.emit(Event("installation", "created", installation.account, installation=installation))
        return installation


def suspend(world: GitHubState, installation: Installation) -> Installation:
    with world.lock:
        changed = replace(installation, suspended=True)
        world.installations[installation.id] = changed
        world.emit(Event("installation", "suspend", changed.account, installation=changed))
        return changed


# An App may have several private keys and several client secrets, each of which GitHub accepts until it is deleted, but
# only one webhook secret. Its owner replaces them on the App's page.
# https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/managing-private-keys-for-github-apps


def add_private_key(world: GitHubState, app: App) -> App:
    private, public = new_key_pair()
    return _change_app(world, app, pem=private, public_keys=(*app.public_keys, public))


def add_client_secret(world: GitHubState, app: App) -> App:
    older = (*app.older_client_secrets, app.client_secret)
    return _change_app(world, app, client_secret=secrets.token_hex(20), older_client_secrets=older)


def delete_older(world: GitHubState, app: App) -> App:
    return _change_app(world, app, public_keys=app.public_keys[-1:], older_client_secrets=())


def change_webhook_secret(world: GitHubState, app: App) -> App:
    return _change_app(world, app, webhook_secret=secrets.token_hex(20))


def _change_app(world: GitHubState, app: App, **changed: Any) -> App:
    with world.lock:
        world.apps[app.id] = new = replace(app, **changed)
        return new


def reaches(installation: Installation, repository: Repository) -> bool:
    selected = installation.repositories
    return installation.account == repository.owner and (selected is None or repository.id in selected)


def installation_token(
    world: GitHubState,
    installation: Installation,
    *,
    repositories: frozenset[int] | None = None,
    permissions: Mapping[str, str] | None = None,
) -> Token:
    """Create an installation token in the new long format (ghs_APPID_JWT) that is valid for one hour."""
    app = world.apps[installation.app]
    parts = ".".join(secrets.token_urlsafe(size) for size in (27, 90, 64))
    token = Token(
        value=f"ghs_{app.id}_{parts}", kind="installation", user=app.bot, installation=installation.id, app=app.id,
        repositories=installation.repositories if repositories is None else repositories,
        permissions={"metadata": "read", **(installation.permissions if permissions is None else permissions)},
        expires_at=world.now() + TOKEN_LIFE,
    )  # fmt: skip
    return _keep(world, token)


def personal_token(world: GitHubState, login: str, *, scopes: tuple[str, ...] = ("repo", "workflow")) -> Token:
    value = f"ghp_{secrets.token_hex(18)}"
    return _keep(world, Token(value, "personal", world.add_user(login).id, scopes=scopes))


def job_token(world: GitHubState, repository: Repository, permissions: Mapping[str, str] | None = None) -> Token:
    rights = {**dict.fromkeys(("contents", "issues", "pull_requests"), "write"), "actions": "read"}
    rights = rights if permissions is None else dict(permissions)
    token = Token(
        value=f"ghs_{secrets.token_hex(18)}", kind="job", user=world.add_user(ACTIONS_BOT, "Bot").id,
        repositories=frozenset({repository.id}), permissions={"metadata": "read", **rights},
        expires_at=world.now() + timedelta(hours=24),
    )  # fmt: skip
    return _keep(world, token)


def token_named(world: GitHubState, value: str) -> Token | None:
    """Return the valid token with that value, or None if it is unknown, expired, or of a suspended installation."""
    token = world.tokens.get(value)
    if token is None or (token.expires_at is not None and token.expires_at <= world.now()):
        return None
    installation = world.installations.get(token.installation or 0)
    return None if installation is not None and installation.suspended else token


def app_of_jwt(world: GitHubState, value: str) -> App | str:
    try:
        issuer = str(jwt.decode(value, options={"verify_signature": False}).get("iss", ""))
    except jwt.PyJWTError:
        return "A JSON web token could not be decoded"
    app = next((each for each in world.apps.values() if issuer in {str(each.id), each.client_id}), None)
    if app is None:
        return "Integration not found"
    claims = next((verified for key in app.public_keys if (verified := _claims(value, key))), None)
    if claims is None:
        return "A JSON web token could not be decoded"
    now = world.now().timestamp()
    if claims["exp"] <= now:
        return "'Expiration time' claim ('exp') must be a numeric value representing the future time"
    if claims["exp"] > now + JWT_LIFE.total_seconds() + 1:
        return "'Expiration time' claim ('exp') is too far in the future"
    if claims["iat"] > now + CLOCK_DRIFT:
        return "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
    return app


def _claims(value: str, public_key: str) -> dict[str, Any] | None:
    try:
        options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "require": ["iat", "exp"]}
        return jwt.decode(value, public_key, algorithms=["RS256"], options=options)  # type: ignore[arg-type]
    except jwt.PyJWTError:
        return None


def grants(token: Token, permission: str, level: str) -> bool:
    if token.permissions is None:
        return True
    return LEVELS.index(token.permissions.get(permission, "none")) >= LEVELS.index(level)


def _keep(world: GitHubState, token: Token) -> Token:
    with world.lock:
        world.tokens[token.value] = token
        return token


def new_key_pair() -> tuple[str, str]:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


_key_pair = cache(new_key_pair)


# https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
CODE_LIFE: Final = timedelta(hours=1)
LONGEST_NAME: Final = 34
"""https://docs.github.com/en/apps/creating-github-apps/registering-a-github-app/registering-a-github-app"""
MOST_CALLBACKS: Final = 10
MISTAKEN: Final = "Invalid GitHub App configuration"


class BadManifestError(NotAllowedError):
    """GitHub does not accept the manifest; the message is the one that its page shows."""


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    homepage: str
    hook_url: str
    redirect_url: str
    permissions: dict[str, str]
    events: tuple[str, ...]
    callback_urls: tuple[str, ...] = ()


def parse_manifest(text: str) -> Manifest:
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
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug or len(name) > LONGEST_NAME:
        raise BadManifestError(f"Name must have 1 to {LONGEST_NAME} characters")
    if slug in {app.slug for app in world.apps.values()}:
        raise BadManifestError("Name has already been taken")
    plain = register_app(world, slug, owner=owner.login, permissions=manifest.permissions)
    created = replace(
        plain, name=name, events=manifest.events, callback_urls=manifest.callback_urls, homepage=manifest.homepage,
        client_secret=secrets.token_hex(20),
    )  # fmt: skip
    world.apps[created.id] = created
    return created


def redirect_with_code(world: GitHubState, app: App, manifest: Manifest, state: str) -> str:
    code = secrets.token_hex(20)
    world.manifest_codes[code] = app, manifest.hook_url, world.now()
    joint = "&" if urlsplit(manifest.redirect_url).query else "?"
    return manifest.redirect_url + joint + urlencode({"code": code, **({"state": state} if state else {})})


def take_app(world: GitHubState, code: str) -> tuple[App, str] | None:
    """Return the App made under a code and the URL of its webhook. A code works once, for an hour; otherwise None."""
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

"""How the owner of an App replaces its credentials on the App's page.

An App may have several private keys and several client secrets, each of which GitHub accepts until it is deleted, but
only one webhook secret.
https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/managing-private-keys-for-github-apps
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from bot.testing.github.credentials import new_key_pair
from bot.testing.github.entities import App
from bot.testing.github.world import GitHubState


def add_private_key(world: GitHubState, app: App) -> App:
    """Generate a further private key, which is shown once. The older ones stay valid."""
    private, public = new_key_pair()
    return _change(world, app, pem=private, public_keys=(*app.public_keys, public))


def add_client_secret(world: GitHubState, app: App) -> App:
    """Generate a further client secret. The older ones stay valid."""
    older = (*app.older_client_secrets, app.client_secret)
    return _change(world, app, client_secret=secrets.token_hex(20), older_client_secrets=older)


def delete_older(world: GitHubState, app: App) -> App:
    """Delete all private keys and client secrets but the newest."""
    return _change(world, app, public_keys=app.public_keys[-1:], older_client_secrets=())


def change_webhook_secret(world: GitHubState, app: App) -> App:
    """Replace the webhook secret. From now on only the new one signs."""
    return _change(world, app, webhook_secret=secrets.token_hex(20))


def _change(world: GitHubState, app: App, **changed: Any) -> App:
    with world.lock:
        world.apps[app.id] = new = replace(app, **changed)
        return new

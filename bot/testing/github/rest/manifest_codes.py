"""The REST endpoint that exchanges the code of a new App for its secrets, and then sends it events.

https://docs.github.com/en/rest/apps/apps#create-a-github-app-from-a-manifest
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bot.testing.github.app_manifests import take_app
from bot.testing.github.rest.endpoint import ApiCall, Endpoint, RestAnswer, not_found

if TYPE_CHECKING:
    from bot.testing.github.webhooks import Webhooks


def manifest_endpoints(webhooks: Webhooks) -> tuple[Endpoint, ...]:
    """Return the row of the endpoint. It needs `webhooks` because a manifest also creates the App's webhook."""
    return (Endpoint("POST", "/app-manifests/{code}/conversions", partial(convert, webhooks)),)


def convert(webhooks: Webhooks, call: ApiCall) -> RestAnswer:
    """Return the App and its secrets, once for each code."""
    created = take_app(call.world, call.path["code"])
    if created is None:
        raise not_found()
    app, hook_url = created
    webhooks.hook_app(app, hook_url)
    hidden = {
        "client_id": app.client_id,
        "client_secret": app.client_secret,
        "webhook_secret": app.webhook_secret,
        "pem": app.pem,
    }
    return RestAnswer({**call.site.app(app), **hidden}, 201)

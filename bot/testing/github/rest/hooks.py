"""REST endpoints that need an App's webhook: its deliveries, and the secrets of a new App.

https://docs.github.com/en/rest/apps/webhooks
https://docs.github.com/en/rest/apps/apps#create-a-github-app-from-a-manifest
"""

from __future__ import annotations

from datetime import timedelta

from bot.testing.github.app_manifests import take_app
from bot.testing.github.rest.endpoint import ApiCall, Endpoint, RestAnswer, not_found
from bot.testing.github.site import Json, stamp
from bot.testing.github.webhooks import DeliveryAttempt, Webhooks

KEPT = timedelta(days=3)
"""https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks"""


def hook_endpoints(webhooks: Webhooks) -> tuple[Endpoint, ...]:
    """Return the endpoints for these webhooks."""

    def list_deliveries(call: ApiCall) -> RestAnswer:
        status = call.query.get("status")
        deliveries = [each for each in reversed(_mine(call, webhooks)) if status in {None, _outcome(each)}]
        return RestAnswer([_item(each) for each in deliveries], by_cursor=True)

    def redeliver(call: ApiCall) -> RestAnswer:
        ident = int(call.path["delivery_id"])
        if ident not in {each.id for each in _mine(call, webhooks)}:
            raise not_found()
        webhooks.redeliver(ident)
        return RestAnswer({}, 202)

    def convert(call: ApiCall) -> RestAnswer:
        created = take_app(call.world, call.path["code"])
        if created is None:
            raise not_found()
        app, hook_url = created
        webhooks.hook_app(app, hook_url)
        secrets = {name: getattr(app, name) for name in ("client_id", "client_secret", "webhook_secret", "pem")}
        return RestAnswer({**call.site.app(app), **secrets}, 201)

    return (
        Endpoint("GET", "/app/hook/deliveries", list_deliveries, by="app"),
        Endpoint("POST", "/app/hook/deliveries/{delivery_id:int}/attempts", redeliver, by="app"),
        Endpoint("POST", "/app-manifests/{code}/conversions", convert),
    )


def _mine(call: ApiCall, webhooks: Webhooks) -> list[DeliveryAttempt]:
    app, since = call.app.id, call.world.now() - KEPT
    return [delivery for delivery in webhooks.deliveries if delivery.hook.app == app and delivery.delivered_at >= since]


def _outcome(delivery: DeliveryAttempt) -> str:
    """Return the outcome by status code alone, as the filter does. An unanswered attempt has no outcome."""
    return "success" if 200 <= delivery.status_code < 400 else "failure" if delivery.status_code >= 400 else ""


def _item(delivery: DeliveryAttempt) -> Json:
    return {
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": stamp(delivery.delivered_at),
        "redelivery": delivery.redelivery,
        "duration": round(delivery.duration, 2),
        "status": delivery.status,
        "status_code": delivery.status_code,
        "event": delivery.event,
        "action": delivery.action,
        "installation_id": delivery.installation,
        "repository_id": delivery.repository,
        "throttled_at": None,
    }

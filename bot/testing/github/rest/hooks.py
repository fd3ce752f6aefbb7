"""REST endpoints of an App's webhook deliveries.

https://docs.github.com/en/rest/apps/webhooks
"""

from __future__ import annotations

import json
from datetime import timedelta

from bot.testing.github.rest.endpoint import ApiCall, Endpoint, RestAnswer, not_found
from bot.testing.github.site import Json, stamp
from bot.testing.github.webhooks import DeliveryAttempt, Webhooks

KEPT = timedelta(days=3)
"""https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/redelivering-webhooks"""


def delivery_endpoints(webhooks: Webhooks) -> tuple[Endpoint, ...]:
    """Return the endpoints for the deliveries of these webhooks."""

    def list_deliveries(call: ApiCall) -> RestAnswer:
        status = call.query.get("status")
        deliveries = [each for each in reversed(_mine(call, webhooks)) if status in {None, _outcome(each)}]
        return RestAnswer([_item(each) for each in deliveries], by_cursor=True)

    def one(call: ApiCall) -> RestAnswer:
        return RestAnswer(_whole(_find(call, webhooks)))

    def redeliver(call: ApiCall) -> RestAnswer:
        webhooks.redeliver(_find(call, webhooks).id)
        return RestAnswer({}, 202)

    return (
        Endpoint("GET", "/app/hook/deliveries", list_deliveries, by="app"),
        Endpoint("GET", "/app/hook/deliveries/{delivery_id:int}", one, by="app"),
        Endpoint("POST", "/app/hook/deliveries/{delivery_id:int}/attempts", redeliver, by="app"),
    )


def _mine(call: ApiCall, webhooks: Webhooks) -> list[DeliveryAttempt]:
    app, since = call.app.id, call.world.now() - KEPT
    return [delivery for delivery in webhooks.deliveries if delivery.hook.app == app and delivery.delivered_at >= since]


def _outcome(delivery: DeliveryAttempt) -> str:
    """Return the outcome by status code alone, as the filter does. An unanswered attempt has no outcome."""
    return "success" if 200 <= delivery.status_code < 400 else "failure" if delivery.status_code >= 400 else ""


def _find(call: ApiCall, webhooks: Webhooks) -> DeliveryAttempt:
    for each in _mine(call, webhooks):
        if each.id == int(call.path["delivery_id"]):
            return each
    raise not_found()


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


def _whole(delivery: DeliveryAttempt) -> Json:
    request = {"headers": delivery.headers(), "payload": json.loads(delivery.body)}
    response = {"headers": {}, "payload": delivery.answer}
    return {**_item(delivery), "url": delivery.hook.url, "request": request, "response": response}

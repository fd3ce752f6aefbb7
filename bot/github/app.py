"""The GitHub App: the manifest flow that creates it, and its webhook deliveries (W3)."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.core.errors import PlangateError, Refused, Transient
from bot.github.client import GitHubClient
from bot.github.deliveries import EVENTS
from bot.github.responses import Missing, Unprocessable, time

# --- GitHub's manifest flow, which creates the App -------------------------------------------------------------------
# This part states what an App of this bot asks for, and exchanges GitHub's code for the App's secrets.
# https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest

PERMISSIONS: Final = {
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "metadata": "read",
    "actions": "read",
    "checks": "write",
}
"""Permissions of the App (docs/tokens.md)."""
OF_ORGANIZATIONS: Final = {"members": "read"}
"""Permissions that only an App of an organization can use."""
APP_EVENTS: Final = (
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "check_suite",
)
"""Events of the App. GitHub sends those about its installations to every App."""
_CODE: Final = re.compile(r"[0-9A-Za-z_-]{1,128}")
_SIGN_IN: Final = "sign-in/callback"
"""Path to which GitHub sends people who sign in to the service, from outside or on its own machine."""
_DESCRIPTION: Final = "Plans first, and writes only what a maintainer approved."


@dataclass(frozen=True, slots=True)
class WantedApp:
    """The App that somebody wants to create."""

    name: str
    organization: str
    """The login of the organization that will own the App, or "" for the person's own account."""
    webhook_url: str
    """Where GitHub sends its events."""

    @property
    def permissions(self) -> dict[str, str]:
        """The permissions that the App asks for."""
        return {**PERMISSIONS, **(OF_ORGANIZATIONS if self.organization else {})}

    @property
    def homepage(self) -> str:
        """The homepage of the App. GitHub returns it unchanged, which identifies the App that was asked for."""
        return self.webhook_url.removesuffix("/webhooks/github") + "/"

    def manifest(self, redirect_url: str) -> str:
        """Return the manifest, for an App that only its owner can install, and that people can sign in with."""
        near = urlsplit(redirect_url)
        return json.dumps(
            {
                "name": self.name,
                "url": self.homepage,
                "description": _DESCRIPTION,
                "hook_attributes": {"url": self.webhook_url, "active": True},
                "redirect_url": redirect_url,
                "callback_urls": [f"{self.homepage}{_SIGN_IN}", f"{near.scheme}://{near.netloc}/{_SIGN_IN}"],
                "public": False,
                "default_permissions": self.permissions,
                "default_events": list(APP_EVENTS),
            }
        )

    def form_url(self, server_url: str, state: str) -> str:
        """Return the URL that the manifest is posted to."""
        return f"{self.settings_url(server_url)}/new?{urlencode({'state': state})}"

    def settings_url(self, server_url: str) -> str:
        """Return the URL of the page that lists the Apps of the owner."""
        of = f"/organizations/{self.organization}" if self.organization else ""
        return f"{server_url}{of}/settings/apps"


class _Owner(BaseModel):
    """The account that owns the App."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    login: str = ""
    type: str = ""


class CreatedApp(BaseModel):
    """What GitHub answers about the new App, with its secrets, which do not print.

    https://docs.github.com/en/rest/apps/apps#create-a-github-app-from-a-manifest
    """

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    id: Annotated[int, Field(gt=0)]
    name: str
    html_url: Annotated[str, Field(pattern=r"^https?://")]
    external_url: str
    owner: _Owner
    permissions: dict[str, str]
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Annotated[str, Field(min_length=1, repr=False)]
    webhook_secret: Annotated[str, Field(min_length=1, repr=False)]
    pem: Annotated[str, Field(pattern=r"^-----BEGIN ", repr=False)]

    def differs_from(self, wanted: WantedApp) -> str:
        """Return how this App differs from the one that was asked for; "" if it is that App.

        People may change the name while they create the App.
        """
        if wanted.organization and self.owner.login.lower() != wanted.organization.lower():
            return f"it belongs to {self.owner.login}, not to {wanted.organization}"
        if not wanted.organization and self.owner.type != "User":
            return f"it belongs to {self.owner.login}, not to a personal account"
        if self.external_url.rstrip("/") != wanted.homepage.rstrip("/"):
            return "it has another homepage"
        if any(self.permissions.get(name) != level for name, level in wanted.permissions.items()):
            return "it has other permissions"
        return ""

    @property
    def installation_url(self) -> str:
        """The page on which the App is installed on repositories."""
        return f"{self.html_url}/installations/new"


class CodeSpent(Refused):
    """GitHub does not know the code: it was used, or it is older than an hour."""


async def exchange_code(client: GitHubClient, code: str) -> CreatedApp:
    """Return the App that a code stands for. GitHub accepts a code only once; no error contains it.

    Raises CodeSpent, Refused for an answer that GitHub does not document, and Transient if there is no answer.
    """
    if not _CODE.fullmatch(code):
        raise CodeSpent("this is not a code from GitHub", fix="create the App again")
    client.redactor.learn(code, "manifest code")
    try:
        answer: Any = await client.post(f"/app-manifests/{code}/conversions", {})
    except (Missing, Unprocessable):
        raise CodeSpent("GitHub does not know the code: it was used, or it is older than an hour") from None
    except Transient as error:
        raise Transient(error.what) from None
    except PlangateError as error:
        raise Refused(error.what) from None
    try:
        return CreatedApp.model_validate(answer)
    except ValidationError as error:
        missing = ", ".join(sorted({str(mistake["loc"][0]) for mistake in error.errors() if mistake["loc"]}))
        raise Refused(f"GitHub's answer lacks {missing or 'everything'}", fix="create the App again") from None


# --- The App's webhook deliveries (W3) -------------------------------------------------------------------------------
# GitHub lists deliveries for three days, and never retries one by itself. This part requests redeliveries.
# https://docs.github.com/en/rest/apps/webhooks

UNDER_WAY: Final = timedelta(seconds=60)
"""Age below which a failed attempt may still succeed: GitHub waits 10 seconds for an answer, 30 on its own servers."""
MOST: Final = 10_000
"""Maximum number of attempts that are read at a time."""
MOST_AGAIN: Final = 100
"""Maximum number of redeliveries requested at a time. Reconciling finds what the others reported on the threads."""

KnownGuids = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Returns those of these guids whose deliveries arrived after all."""


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt of GitHub to deliver a webhook. A redelivery has an id of its own and the same guid."""

    id: int
    guid: str
    event: str
    action: str
    """"" for an event that has none."""
    at: datetime
    status_code: int
    """0 if nobody answered."""
    status: str
    """GitHub's words for the outcome, such as ``OK``."""
    repository: int | None
    """Numeric id; None for an event that concerns no repository."""
    is_redelivery: bool


async def delivery_attempts(app: GitHubClient) -> AsyncIterator[DeliveryAttempt]:
    """Yield all attempts, newest first, and request further pages as they are needed.

    `app` authenticates as the App itself.
    """
    async for item in app.pages("/app/hook/deliveries"):
        yield DeliveryAttempt(
            id=int(item["id"]),
            guid=str(item["guid"]),
            event=str(item["event"]),
            action=str(item["action"] or ""),
            at=time(item["delivered_at"]),
            status_code=int(item["status_code"]),
            status=str(item["status"]),
            repository=item["repository_id"],
            is_redelivery=bool(item["redelivery"]),
        )


async def newest_attempts(app: GitHubClient, most: int) -> Sequence[DeliveryAttempt]:
    """Return at most `most` attempts, newest first."""
    attempts: list[DeliveryAttempt] = []
    async for attempt in delivery_attempts(app):
        attempts.append(attempt)
        if len(attempts) >= most:
            break
    return attempts


async def redeliver(app: GitHubClient, attempt: int) -> None:
    """Have GitHub deliver again what an attempt delivered. Raises Refused if GitHub no longer keeps it."""
    await app.post(f"/app/hook/deliveries/{attempt}/attempts", {}, repeatable=True)


async def redeliver_failed(app: GitHubClient, known: KnownGuids, since: datetime) -> int:
    """Request one redelivery of each delivery that failed since then and did not arrive. Return the number of requests.

    `app` authenticates as the App itself.
    """
    lost = await _lost_deliveries(app, since)
    arrived = await known(lost) if lost else ()
    number = 0
    for attempt in [first for guid, first in lost.items() if guid not in arrived][:MOST_AGAIN]:
        with suppress(Refused):  # GitHub no longer keeps it, or the hook was removed
            await redeliver(app, attempt)
            number += 1
    return number


async def _lost_deliveries(app: GitHubClient, since: datetime) -> dict[str, int]:
    """Return the guid of each delivery that failed since then and was not attempted again, with its first attempt."""
    first, over = dict[str, int](), set[str]()
    count, young = 0, app.clock.now() - UNDER_WAY
    # The status filter matches only codes from 400 on, and an attempt that nobody answered has no code.
    async for attempt in delivery_attempts(app):
        count += 1
        if attempt.at < since or count > MOST:
            break
        if attempt.event not in EVENTS:
            continue
        if 200 <= attempt.status_code < 400 or attempt.at > young or attempt.is_redelivery:
            over.add(attempt.guid)  # it arrived, may still arrive, or was attempted again
        if not attempt.is_redelivery:
            first[attempt.guid] = attempt.id
    return {guid: attempt for guid, attempt in first.items() if guid not in over}

"""Creates the bot's GitHub App with a person at a browser, by GitHub's manifest flow.

- Each form has an unguessable state, which GitHub hands back with its code (W4a). Only the newest form counts.
- GitHub hands out an App's private key once. If it cannot be saved, it stays in memory, and the same page saves it when
  it is loaded again.
- Credentials appear under their name once, complete and synced, readable by this user alone, and replace no other file.
"""

import asyncio
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from bot.clock import SystemClock
from bot.config.environment import FILE
from bot.config.settings import GitHubSettings, Settings
from bot.core.errors import Misconfigured, Refused, Transient
from bot.core.secrets.redaction import Redactor
from bot.disk import sync_folder
from bot.github.app import APP_EVENTS, CodeSpent, CreatedApp, WantedApp, exchange_code
from bot.github.client import GitHubClient
from bot.github.pace import WritePace
from bot.github.tokens import StaticToken

TIMEOUT: Final = 20
"""Seconds to wait for GitHub: less than a request to the set-up may take."""
_RELOAD: Final = "Reload this page to try again."
_AFTERWARDS: Final = (
    "If GitHub lists the App there, delete it and begin again. Or keep it: generate a private key and set a webhook "
    "secret on its page, and start with PLANGATE_APP_ID, PLANGATE_PRIVATE_KEY_PATH, and PLANGATE_WEBHOOK_SECRET."
)


@dataclass(frozen=True, slots=True)
class ManifestForm:
    url: str
    manifest: str
    permissions: Mapping[str, str]
    """Permission -> access, as GitHub names them."""
    events: tuple[str, ...]


@dataclass(slots=True)
class _Attempt:
    """One form that was sent to GitHub, and the App that was created from it, if any."""

    state: str = field(repr=False)
    wanted: WantedApp
    created: CreatedApp | None = None
    """The App whose secrets are not saved yet."""


@dataclass(slots=True)
class AppSetUp:
    """One set-up. Its methods may run concurrently."""

    settings: Settings
    client: GitHubClient
    created: CreatedApp | None = None
    """The App, once its credentials are saved."""
    _attempt: _Attempt | None = None
    _saving: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def server_url(self) -> str:
        return self.settings.github.server_url

    @property
    def path(self) -> Path:
        return self.settings.data_dir / FILE

    @property
    def is_saved(self) -> bool:
        """Whether an App's credentials are on the disk, saved by this process or an earlier one."""
        return self.path.exists()

    def begin(self, *, name: str, organization: str, webhook_url: str, redirect_url: str) -> ManifestForm:
        """Return the form for an App of an organization, or of the person's own account ("").

        GitHub sends the person back to `redirect_url` with a code and a new state.
        """
        app = WantedApp(name, organization, webhook_url)
        self._attempt = _Attempt(secrets.token_urlsafe(32), app)
        url = app.form_url(self.server_url, self._attempt.state)
        return ManifestForm(url, app.manifest(redirect_url), app.permissions, APP_EVENTS)

    async def finish(self, state: str, code: str) -> CreatedApp:
        """Create the App that a state was given for, save its credentials, and return it.

        Raises Refused if that is impossible, and Transient if loading the same page again may help. The error's `where`
        is the page of the owner's Apps if an App may have been left there.
        """
        async with self._saving:
            attempt = self._attempt
            if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
                what = "This answer of GitHub's does not belong to the newest form of this set-up"
                raise Refused(what, fix="Begin again, and use the newest form.")
            if attempt.created is None:
                attempt.created = await self._exchange(attempt, code)
            await self._save(attempt.created)
            self._attempt, self.created = None, attempt.created
            return attempt.created

    async def _exchange(self, attempt: _Attempt, code: str) -> CreatedApp:
        """Return the App that GitHub gives for a code. Withdraws the state if GitHub's answer ends the attempt."""
        apps = attempt.wanted.settings_url(self.server_url)
        try:
            created = await exchange_code(self.client, code)
        except Transient as error:
            raise Transient(error.what, where=apps, fix=_RELOAD) from None
        except (CodeSpent, Refused) as error:
            self._attempt = None
            raise Refused(error.what, where=apps, fix=_AFTERWARDS) from None
        for secret, kind in ((created.pem, "App key"), (created.webhook_secret, "webhook secret")):
            self.client.redactor.learn(secret, kind)
        self.client.redactor.learn(created.client_secret, "client secret")
        if difference := created.differs_from(attempt.wanted):
            self._attempt = None
            why = f"This is not the App that you asked for: {difference}. Nothing was saved"
            raise Refused(why, where=apps, fix="Delete the App if it is yours, and begin again.")
        return created

    async def _save(self, created: CreatedApp) -> None:
        try:
            await asyncio.to_thread(save_app, self.path, saved_variables(created, self.settings.github))
        except FileExistsError:
            raise Refused(
                f"There are credentials of another App in {self.path}, which were kept",
                where=f"{created.html_url}",
                fix="Delete the App that was just created, and start the service again.",
            ) from None
        except OSError as error:
            fix = f"The App exists, and only this process knows its key. Make room, or let this user write. {_RELOAD}"
            raise Transient(f"The credentials cannot be saved: {error.strerror}", fix=fix) from None


@contextmanager
def open_app_set_up(settings: Settings, redactor: Redactor) -> Iterator[AppSetUp]:
    """Return a set-up for the data directory of the settings.

    Raises OSError if the directory cannot be written, and Misconfigured if the settings name the web site of one server
    and the API of another: the code of the first must not go to the second.
    """
    github, defaults, clock = settings.github, GitHubSettings(), SystemClock()
    if (github.server_url == defaults.server_url) != (github.api_url == defaults.api_url):
        raise Misconfigured(
            f"{github.server_url} and {github.api_url} are two servers",
            where="GITHUB_SERVER_URL, GITHUB_API_URL",
            fix="set both, for GitHub Enterprise Server to https://HOST and https://HOST/api/v3",
        )
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    NamedTemporaryFile(dir=settings.data_dir).close()  # raises where the App could not be saved
    pace, authorities = WritePace(clock, 0.0), settings.network.authorities
    connection = (StaticToken(lambda: ""), clock, pace, TIMEOUT, redactor, authorities)
    client = GitHubClient(github.api_url, github.graphql_url, *connection)
    try:
        yield AppSetUp(settings, client)
    finally:
        client.close()


def save_app(path: Path, variables: Mapping[str, str]) -> None:
    """Write the credentials of an App, for this user only. Raises FileExistsError if some exist, and OSError."""
    with NamedTemporaryFile("w", dir=path.parent, encoding="utf-8") as file:
        json.dump(variables, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
        os.link(file.name, path)  # unlike a rename, a link never replaces a file
    sync_folder(path.parent)


def saved_variables(created: CreatedApp, github: GitHubSettings) -> dict[str, str]:
    """Return the variables that make a process act as the App, with the addresses of an own GitHub server."""
    defaults = GitHubSettings()
    addresses = {
        "GITHUB_SERVER_URL": github.server_url,
        "GITHUB_API_URL": github.api_url,
        "GITHUB_GRAPHQL_URL": github.graphql_url,
    }
    return {
        "PLANGATE_APP_ID": str(created.id),
        "PLANGATE_PRIVATE_KEY": created.pem,
        "PLANGATE_WEBHOOK_SECRET": created.webhook_secret,
        "PLANGATE_CLIENT_ID": created.client_id,
        "PLANGATE_CLIENT_SECRET": created.client_secret,
        **(addresses if github.server_url != defaults.server_url else {}),
    }

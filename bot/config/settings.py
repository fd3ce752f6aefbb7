"""The operator's settings as values. Secrets have a type that never prints."""

import os
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

PATH = ".github/plangate.yml"
PARTIAL_CLONE_MB: Final = 256
RECEIPTS: Final = "receipts"
"""The folder of the data directory that holds a copy of each receipt, named ``<commit>.json``."""


class Secret:
    """A text that prints only through `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self._text else "Secret()"


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    api_url: str = "https://api.github.com"
    graphql_url: str = "https://api.github.com/graphql"
    server_url: str = "https://github.com"
    token: Secret = field(default_factory=lambda: Secret(""))
    app_id: str = ""
    private_key: Secret = field(default_factory=lambda: Secret(""))
    webhook_secret: Secret = field(default_factory=lambda: Secret(""))
    api_token: Secret = field(default_factory=lambda: Secret(""))
    client_id: str = ""
    """The App's client id. With the secret, people sign in to the dashboard."""
    client_secret: Secret = field(default_factory=lambda: Secret(""))
    poll_seconds: float = 15.0
    reconcile_seconds: float = 300.0
    """Seconds between two reads of what webhooks may have missed (W3)."""
    write_pause: float = 1.0
    """Seconds between two writes. GitHub asks for at least one."""
    progress_seconds: float = 20.0
    """Seconds of planning before its progress is shown, and between two updates. Quick plans show none."""
    label_threads: bool = False
    """Whether open threads that the bot works on carry a label, for the conditions of the Action's workflow."""

    @property
    def needs_set_up(self) -> bool:
        """Whether no credential of the bot and no webhook secret is set. The service then offers its set-up (W4a)."""
        return not (self.app_id or self.private_key or self.token or self.webhook_secret)

    @property
    def as_app(self) -> bool:
        return bool(self.app_id and self.private_key)


@dataclass(frozen=True, slots=True)
class Identity:
    """Workload identity instead of an API key: the account to act as, and where its token comes from."""

    rule_id: str
    organization_id: str
    service_account_id: str
    request_url: str
    """Where an Actions job gets the proof. Empty if it is in a file, or is the token itself."""
    request_token: Secret
    token_file: str = ""
    workspace_id: str = ""
    """The workspace to act in, if the federation rule enables more than one."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values that take precedence over the file of the default branch. None: the file's value counts."""

    mention: str | None = None
    model: str | None = None
    max_cost_usd: float | None = None
    path: str = PATH
    """Path of the file on the default branch."""


@dataclass(frozen=True, slots=True)
class OperatorNetwork:
    """How the operator's machine reaches servers, by the standard proxy variables."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    """Value by scheme; ``no`` lists the hosts that are reached directly."""
    authorities: str = ""
    """Path of the certificate file (SSL_CERT_FILE)."""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "OperatorNetwork":
        """Return the network settings in the variables, in either case. As in curl, lower case takes precedence."""
        names = ("no", "http", "https", "all")
        proxies = {name: env.get(f"{name}_proxy") or env.get(f"{name}_proxy".upper(), "") for name in names}
        return cls({name: value for name, value in proxies.items() if value}, env.get("SSL_CERT_FILE", ""))

    def proxy(self, url: str) -> str:
        """Return the proxy for a URL, or "" if it is reached directly."""
        parts = urlsplit(url)
        direct = (name.strip().removeprefix(".") for name in self.proxies.get("no", "").split(","))
        if any(name and (name == "*" or f".{parts.hostname}".endswith(f".{name}")) for name in direct):
            return ""
        return self.proxies.get(parts.scheme) or self.proxies.get("all", "")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Concurrency limits of one service process."""

    sessions: int = 4
    """Sessions with the model. Each may take most of an hour."""
    looks: int = 8
    """Checks of threads at once, without those in a session. They never wait behind sessions."""
    connections_per_address: int = 64
    """Connections that one other machine may hold open."""
    public_url: str = ""
    """Where browsers reach the dashboard. "": only from this machine."""


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """The operator's webhook, which is notified when a thread waits, is done, or failed."""

    url: str = ""
    """https, or http on this machine; "" for none."""
    secret: Secret = field(default_factory=lambda: Secret(""))
    """``whsec_`` and the base64 form of 24 to 64 bytes."""

    def key(self) -> bytes:
        """Return the bytes that sign. Raises ValueError if the secret has another form."""
        return b64decode(self.secret.reveal().removeprefix("whsec_"), validate=True)


@dataclass(frozen=True, slots=True)
class Settings:
    api_key: Secret = field(default_factory=lambda: Secret(""))
    base_url: str | None = None
    path: str = os.defpath
    """Where to search for programs."""
    data_dir: Path = Path()
    state_key: Secret = field(default_factory=lambda: Secret(""))
    output_cap: int | None = None
    stall_seconds: int | None = None
    """Seconds of silence after which a response is given up (M7)."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    network: OperatorNetwork = OperatorNetwork()
    signing_key: Path | None = None
    """OpenSSH private key that signs commits. None: commits are not signed."""
    partial_clone_mb: int = PARTIAL_CLONE_MB
    """Megabytes. A larger repository on GitHub is fetched without old contents (G2)."""
    github: GitHubSettings = field(default_factory=GitHubSettings)
    service: ServiceSettings = ServiceSettings()
    database: Secret = field(default_factory=lambda: Secret(""))
    """URL of the PostgreSQL database with the queue of the service. Empty: files in the data directory, one process."""
    notify: NotifySettings = field(default_factory=NotifySettings)
    identity: Identity | None = None
    overrides: Overrides = Overrides()
    traces: str = ""
    """The OTLP endpoint that receives spans."""
    trace_headers: Secret = field(default_factory=lambda: Secret(""))
    """Headers for that endpoint: ``name=value,...``."""

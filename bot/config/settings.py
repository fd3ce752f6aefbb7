"""What an operator sets, as values: secrets are typed so that they never print."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    pass

PATH = ".github/plangate.yml"
PARTIAL_CLONE_MB: Final = 256


class Secret:
    """A text that shows itself only when asked by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Give the text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self._text else "Secret()"


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    """Where GitHub is, and as whom to speak to it."""

    api_url: str = "https://api.github.com"
    graphql_url: str = "https://api.github.com/graphql"
    server_url: str = "https://github.com"
    token: Secret = field(default_factory=lambda: Secret(""))
    app_id: str = ""
    private_key: Secret = field(default_factory=lambda: Secret(""))
    webhook_secret: Secret = field(default_factory=lambda: Secret(""))
    api_token: Secret = field(default_factory=lambda: Secret(""))
    poll_seconds: float = 15.0
    reconcile_seconds: float = 300.0
    """Seconds between two readings of what no webhook may have told (W3)."""
    write_pause: float = 1.0
    """Seconds between two writes (GitHub asks for at least one)."""

    @property
    def as_app(self) -> bool:
        """Whether to speak as a GitHub App."""
        return bool(self.app_id and self.private_key)


@dataclass(frozen=True, slots=True)
class Identity:
    """Workload identity instead of an API key: whom to be, and where the proof of it comes from."""

    rule_id: str
    organization_id: str
    service_account_id: str
    request_url: str
    """Where a job of GitHub Actions gets it; empty where it lies in a file, or is the token itself."""
    request_token: Secret
    token_file: str = ""
    workspace_id: str = ""
    """The workspace to act in, where the federation rule enables more than one."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What outranks the file of the default branch; None leaves what the file says."""

    mention: str | None = None
    model: str | None = None
    max_cost_usd: float | None = None
    path: str = PATH
    """Where the file is, on the default branch."""


@dataclass(frozen=True, slots=True)
class Network:
    """How the operator's machine reaches servers, by the variables that every program knows."""

    proxies: Mapping[str, str] = field(default_factory=dict)
    """Scheme, or ``no`` for the hosts that are reached directly -> value."""
    authorities: str = ""
    """SSL_CERT_FILE."""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "Network":
        """Read the variables, in either case; the small ones count more, as for curl."""
        names = ("no", "http", "https", "all")
        found = {name: env.get(f"{name}_proxy") or env.get(f"{name}_proxy".upper(), "") for name in names}
        return cls({name: value for name, value in found.items() if value}, env.get("SSL_CERT_FILE", ""))

    def proxy(self, url: str) -> str:
        """Give the proxy for a URL; empty where it is reached directly."""
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        direct = (name.strip().removeprefix(".") for name in self.proxies.get("no", "").split(","))
        if any(name and (name == "*" or f".{parts.hostname}".endswith(f".{name}")) for name in direct):
            return ""
        return self.proxies.get(parts.scheme) or self.proxies.get("all", "")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How much one process of the service does side by side."""

    sessions: int = 4
    """Sessions with the model, which may each take most of an hour."""
    looks: int = 8
    """Short looks at threads, which never wait behind sessions."""
    connections_per_address: int = 64
    """Connections that one other machine may hold open."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings (interfaces.md, Environment)."""

    api_key: Secret = field(default_factory=lambda: Secret(""))
    base_url: str | None = None
    path: str = os.defpath
    """Where programs are looked for."""
    data_dir: Path = Path()
    state_key: Secret = field(default_factory=lambda: Secret(""))
    output_cap: int | None = None
    stall_seconds: int | None = None
    """An answer of which no byte comes for so long is given up (M7)."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    network: Network = Network()
    signing_key: Path | None = None
    """An OpenSSH private key that signs commits; None for no signature."""
    partial_clone_mb: int = PARTIAL_CLONE_MB
    """A repository that takes more on GitHub is fetched without contents of its past (security.md, G2)."""
    github: GitHubSettings = field(default_factory=GitHubSettings)
    service: ServiceSettings = ServiceSettings()
    identity: Identity | None = None
    overrides: Overrides = Overrides()
    traces: str = ""
    """The OTLP endpoint that spans are sent to."""
    trace_headers: Secret = field(default_factory=lambda: Secret(""))
    """What it is sent with: ``name=value,...``."""

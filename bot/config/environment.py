"""Reads the settings once: the environment of operators, and .github/plangate.yml of the default branch."""

import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from bot.config.settings import (
    PARTIAL_CLONE_MB,
    PATH,
    GitHubSettings,
    Identity,
    NotifySettings,
    OperatorNetwork,
    Secret,
    ServiceSettings,
    Settings,
)
from bot.core.errors import Misconfigured
from bot.core.secrets.redaction import Redactor, Values
from bot.core.transcript import decode_json

if TYPE_CHECKING:
    from bot.core.configuration import Configuration

# --- The GitHub App that the set-up in the browser saved --------------------------------------------------------------
# One file in the data directory, with mode 0600: a JSON object whose keys are names of variables. Variables of the
# environment take precedence, and if they hold credentials of the bot, the file does not count at all.

FILE: Final = "github-app.json"
VARIABLES: Final = (
    "PLANGATE_APP_ID",
    "PLANGATE_PRIVATE_KEY",
    "PLANGATE_WEBHOOK_SECRET",
    "PLANGATE_CLIENT_ID",
    "PLANGATE_CLIENT_SECRET",
    "GITHUB_SERVER_URL",
    "GITHUB_API_URL",
    "GITHUB_GRAPHQL_URL",
)
"""The variables that the file may set. The addresses are those of the server that has the App."""
_ACCOUNTS: Final = frozenset(
    ("PLANGATE_APP_ID", "PLANGATE_PRIVATE_KEY", "PLANGATE_PRIVATE_KEY_PATH", "PLANGATE_GITHUB_TOKEN")
)


def with_saved_app(env: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """Return the variables, with those of the saved App where the environment sets none.

    Raises Misconfigured if the file cannot be read.
    """
    if env.keys() & _ACCOUNTS:
        return dict(env)
    return {**_saved_variables(data_dir / FILE), **env}


def _saved_variables(path: Path) -> dict[str, str]:
    try:
        variables = decode_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise Misconfigured(
            f"the App's credentials cannot be read: {error.strerror}", where=str(path), fix="let this user read it"
        ) from None
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise Misconfigured(
            "not the credentials of an App",
            where=str(path),
            fix="restore the file, or delete it and set up the App again",
        )
    return {name: variables[name] for name in VARIABLES if name in variables}


# --- The settings of operators ----------------------------------------------------------------------------------------
# Only this module reads os.environ. Precedence: flag, environment, file, default.

# Variables that hold secrets, ours or another program's. None of their values may be shown (PR4).
_SECRETS = {
    "ANTHROPIC_API_KEY": "model key",
    "ANTHROPIC_AUTH_TOKEN": "model key",
    "PLANGATE_STATE_KEY": "state key",
    "PLANGATE_GITHUB_TOKEN": "GitHub token",
    "PLANGATE_PRIVATE_KEY": "App key",
    "PLANGATE_WEBHOOK_SECRET": "webhook secret",
    "PLANGATE_API_TOKEN": "API token",
    "PLANGATE_NOTIFY_SECRET": "notification secret",
    "PLANGATE_CLIENT_SECRET": "client secret",
    "PLANGATE_DATABASE_URL": "database URL",
    "GITHUB_TOKEN": "GitHub token",
    "GH_TOKEN": "GitHub token",
    "GH_ENTERPRISE_TOKEN": "GitHub token",
    "GITHUB_ENTERPRISE_TOKEN": "GitHub token",
    "INPUT_ANTHROPIC_API_KEY": "model key",
    "INPUT_STATE_KEY": "state key",
    "INPUT_GITHUB_TOKEN": "GitHub token",
    "INPUT_APP_PRIVATE_KEY": "App key",
    "ANTHROPIC_IDENTITY_TOKEN": "identity token",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "identity token",
    "ACTIONS_RUNTIME_TOKEN": "job token",
    "PLANGATE_JOB_TOKEN": "job token",
}


_NOTIFY_URL, _NOTIFY_SECRET = "PLANGATE_NOTIFY_URL", "PLANGATE_NOTIFY_SECRET"
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_DERIVED_FROM: Final = frozenset({"PLANGATE_STATE_KEY", "PLANGATE_PRIVATE_KEY"})
_SIGNING_KEY: Final = "PLANGATE_SIGNING_KEY_PATH"
_ENTERPRISE_TOKENS: Final = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
SERVICE_URL: Final = "http://127.0.0.1:8000"
"""The default address of `plangate serve`."""
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


def settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in the environment. Raises Misconfigured, which names the variable. Empty counts as unset.

    The bot's credentials may also come from the set-up in the browser (`with_saved_app`).
    """
    env = environment_variables(environ)
    env = with_saved_app(env, _data_dir(env))
    return Settings(
        api_key=Secret(env.get("ANTHROPIC_API_KEY", "")),
        base_url=_address(env, "ANTHROPIC_BASE_URL", "") or None,
        path=env.get("PATH", os.defpath),
        data_dir=_data_dir(env),
        state_key=Secret(env.get("PLANGATE_STATE_KEY", "")),
        output_cap=_positive(env, "PLANGATE_MAX_OUTPUT_TOKENS"),
        stall_seconds=_positive(env, "PLANGATE_STALL_SECONDS"),
        extra_body=_object(env, "PLANGATE_EXTRA_BODY"),
        network=OperatorNetwork.of(env),
        signing_key=_expand(env[_SIGNING_KEY]).absolute() if _SIGNING_KEY in env else None,
        partial_clone_mb=_positive(env, "PLANGATE_PARTIAL_CLONE_MB") or PARTIAL_CLONE_MB,
        github=_github(env),
        service=_service(env),
        database=Secret(env.get("PLANGATE_DATABASE_URL", "")),
        notify=_notify(env),
        identity=None if "ANTHROPIC_API_KEY" in env else _identity(env),
        traces=env.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        trace_headers=Secret(env.get("OTEL_EXPORTER_OTLP_HEADERS", "")),
    )


def settings_of_person(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings for a command that a person runs about a repository (`init`, `doctor --repo`).

    Without credentials of the bot, they have the token that the `gh` program would use. For a server other than
    github.com, its two variables for GitHub Enterprise Server come first:
    https://cli.github.com/manual/gh_help_environment
    """
    values, env = settings(environ), environment_variables(environ)
    public = values.github.server_url == GitHubSettings().server_url
    names = ("GH_TOKEN", "GITHUB_TOKEN") if public else (*_ENTERPRISE_TOKENS, "GH_TOKEN", "GITHUB_TOKEN")
    own = Secret(next((env[name] for name in names if name in env), ""))
    if values.github.as_app or values.github.token:
        return values
    return replace(values, github=replace(values.github, token=own))


def _identity(env: Mapping[str, str]) -> Identity | None:
    """Return the workload identity, or None. Its proof is in a file, the token itself, or from the Actions job."""
    if "ANTHROPIC_FEDERATION_RULE_ID" not in env:
        return None
    names = ("ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_ORGANIZATION_ID", "ANTHROPIC_SERVICE_ACCOUNT_ID")
    if missing := [name for name in names if name not in env]:
        raise Misconfigured("workload identity is incomplete", where=", ".join(missing), fix="set all three")
    file, token = env.get("ANTHROPIC_IDENTITY_TOKEN_FILE", ""), env.get("ANTHROPIC_IDENTITY_TOKEN", "")
    url, asking = (env.get(f"ACTIONS_ID_TOKEN_REQUEST_{part}", "") for part in ("URL", "TOKEN"))
    if not (file or token or (url and asking)):
        raise Misconfigured(
            "workload identity has no proof", where="ANTHROPIC_IDENTITY_TOKEN_FILE", fix="name the file of its token"
        )
    rule, organization, account = (env[name] for name in names)
    own = bool(file or token)
    proof = ("" if own else url, Secret(token if own else asking), file)
    return Identity(rule, organization, account, *proof, env.get("ANTHROPIC_WORKSPACE_ID", ""))


def environment_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that are set. An empty variable counts as unset.

    White space around a value does not count: a secret that is mounted from a file often ends with a newline, which no
    HTTP header may hold. Variables from which keys are derived stay as they are, byte for byte.
    """
    variables = (os.environ if environ is None else environ).items()
    return {key: value if key in _DERIVED_FROM else value.strip() for key, value in variables if value.strip()}


def service_access(url: str = "", environ: Mapping[str, str] | None = None) -> tuple[str, Secret]:
    """Return the address of a running service, and the token of its API. `url` takes precedence over PLANGATE_URL.

    Raises Misconfigured for a malformed address.
    """
    env = environment_variables(environ) | ({"PLANGATE_URL": url} if url else {})
    return _address(env, "PLANGATE_URL", SERVICE_URL), Secret(env.get("PLANGATE_API_TOKEN", ""))


def redactor_for(settings: Settings | None = None, environ: Mapping[str, str] | None = None) -> Redactor:
    """Return a redactor for the secrets in the settings and the environment. Never raises."""
    env = environment_variables(environ)
    with suppress(Misconfigured):  # reported where the settings are read
        env = with_saved_app(env, _data_dir(env))
    around = [(env[name].replace("\\n", "\n"), kind) for name, kind in _SECRETS.items() if name in env]
    around += [(value, "model key") for value in _keys_of_headers(env.get("ANTHROPIC_CUSTOM_HEADERS", ""))]
    with suppress(Misconfigured, UnicodeDecodeError):  # reported where the key is needed
        around.append((_private_key(env), "App key"))
    with suppress(OSError, UnicodeDecodeError, KeyError):
        around.append((_expand(env[_SIGNING_KEY]).read_text(encoding="utf-8"), "signing key"))
    return Redactor(tuple(dict.fromkeys((*(_secrets(settings) if settings else ()), *around))))


def _keys_of_headers(lines: str) -> list[str]:
    """Return the values of the headers (``Name: value`` lines) whose names suggest a credential."""
    pairs = (line.partition(":") for line in lines.split("\n"))
    return [
        value.split()[-1]
        for name, _, value in pairs
        if re.search("key|auth|token|secret", name, re.I) and value.strip()
    ]


def _secrets(settings: Settings) -> Values:
    github, identity = settings.github, settings.identity
    secrets = (
        (settings.api_key, "model key"),
        (settings.state_key, "state key"),
        (github.token, "GitHub token"),
        (github.private_key, "App key"),
        (github.webhook_secret, "webhook secret"),
        (github.api_token, "API token"),
        (settings.database, "database URL"),
        (settings.notify.secret, "notification secret"),
        (github.client_secret, "client secret"),
        (settings.trace_headers, "OTLP headers"),
        *(((identity.request_token, "identity token"),) if identity else ()),
    )
    return tuple((secret.reveal(), kind) for secret, kind in secrets if secret)


def decoy_variable(value: str) -> None:
    """Put a decoy into this process's environment, the first place that a thief of secrets would search (X3)."""
    os.environ["RELEASE_TOKEN"] = value


def log_style(environ: Mapping[str, str] | None = None, *, level: str = "info") -> tuple[str, str]:
    """Return the log format (text or json) and the lowest level that is logged; `level` if none is set."""
    env = environment_variables(environ)
    form, level = env.get("PLANGATE_LOG", "text"), env.get("PLANGATE_LOG_LEVEL", level)
    if form not in {"text", "json"}:
        raise Misconfigured(f"not a log format: {form!r}", where="PLANGATE_LOG", fix="set it to text or json")
    if level.lower() not in {*_LEVELS, "warn"}:
        raise Misconfigured(
            f"not a log level: {level!r}", where="PLANGATE_LOG_LEVEL", fix=f"set it to {' or '.join(_LEVELS)}"
        )
    return form, level.upper()


def configuration(text: str, where: str = PATH) -> "Configuration":
    """Return the configuration in a file's text. Raises Misconfigured with line, column, and the nearest key."""
    from bot.config.repository_file import parse_configuration

    return parse_configuration(text, where)


def _github(env: Mapping[str, str]) -> GitHubSettings:
    """Return GitHub's URLs, as the Actions runner sets them (also for GitHub Enterprise Server), and credentials."""
    default = GitHubSettings()
    api = _address(env, "GITHUB_API_URL", default.api_url)
    return GitHubSettings(
        api_url=api,
        graphql_url=_address(env, "GITHUB_GRAPHQL_URL", _graphql_of(api)),
        server_url=_address(env, "GITHUB_SERVER_URL", default.server_url),
        token=Secret(env.get("PLANGATE_GITHUB_TOKEN", "")),
        app_id=env.get("PLANGATE_APP_ID", ""),
        private_key=Secret(_private_key(env)),
        webhook_secret=Secret(env.get("PLANGATE_WEBHOOK_SECRET", "")),
        api_token=Secret(env.get("PLANGATE_API_TOKEN", "")),
        client_id=env.get("PLANGATE_CLIENT_ID", ""),
        client_secret=Secret(env.get("PLANGATE_CLIENT_SECRET", "")),
        poll_seconds=_seconds(env, "PLANGATE_POLL_SECONDS", default.poll_seconds),
        reconcile_seconds=_seconds(env, "PLANGATE_RECONCILE_SECONDS", default.reconcile_seconds),
        write_pause=_seconds(env, "PLANGATE_WRITE_PAUSE_SECONDS", default.write_pause),
    )


def _service(env: Mapping[str, str]) -> ServiceSettings:
    default = ServiceSettings()
    return ServiceSettings(
        _positive(env, "PLANGATE_SESSIONS") or default.sessions,
        _positive(env, "PLANGATE_LOOKS") or default.looks,
        _positive(env, "PLANGATE_CONNECTIONS_PER_ADDRESS") or default.connections_per_address,
        _public_url(env),
    )


def _notify(env: Mapping[str, str]) -> NotifySettings:
    """Return the webhook for notifications. A plain http address may only be on this machine."""
    notify = NotifySettings(_address(env, _NOTIFY_URL, ""), Secret(env.get(_NOTIFY_SECRET, "")))
    parts = urlsplit(notify.url)
    if parts.username or parts.password or (parts.scheme == "http" and parts.hostname not in _THIS_MACHINE):
        fix = "write https://host/path, without a password; http only for 127.0.0.1, ::1, or localhost"
        raise Misconfigured("not an address for notifications", where=_NOTIFY_URL, fix=fix)
    if bool(notify.url) != bool(notify.secret):
        raise Misconfigured("notifications need an address and a secret", where=_NOTIFY_SECRET, fix="set both or none")
    if notify.url and not _is_signing_secret(notify):
        fix = "set it to whsec_ and the output of: openssl rand -base64 32"
        raise Misconfigured("not a secret of standard webhooks", where=_NOTIFY_SECRET, fix=fix)
    return notify


def _is_signing_secret(notify: NotifySettings) -> bool:
    """Return whether the secret is ``whsec_`` and 24 to 64 bytes, as the specification of standard webhooks asks."""
    try:
        return notify.secret.reveal().startswith("whsec_") and 24 <= len(notify.key()) <= 64
    except ValueError:
        return False


def _public_url(env: Mapping[str, str]) -> str:
    """Return the address of the dashboard: only the origin, and https unless it is this machine's."""
    url = _address(env, "PLANGATE_PUBLIC_URL", "")
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or parts.hostname in _THIS_MACHINE
    if url and (parts.path or parts.query or parts.username or not is_safe):
        cure = "write something like https://plangate.example.com"
        raise Misconfigured(f"not the origin of a web site: {url!r}", where="PLANGATE_PUBLIC_URL", fix=cure)
    return url


def _address(env: Mapping[str, str], name: str, default: str) -> str:
    """Return the URL of a server, without a trailing slash."""
    value = env.get(name, default).strip()
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # also a port that is not a number
        is_valid = False
    if value and not is_valid:
        raise Misconfigured(f"not an address: {value!r}", where=name, fix="write something like https://host/path")
    return value.rstrip("/")


def _graphql_of(api: str) -> str:
    return api.removesuffix("/v3") + "/graphql"


def _private_key(env: Mapping[str, str]) -> str:
    if key := env.get("PLANGATE_PRIVATE_KEY"):
        return key.replace("\\n", "\n")
    path = env.get("PLANGATE_PRIVATE_KEY_PATH")
    if not path:
        return ""
    try:
        return _expand(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise Misconfigured(
            f"the private key cannot be read: {why}", where="PLANGATE_PRIVATE_KEY_PATH", fix="set it to its PEM file"
        ) from None


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(env.get(name, default))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:  # this also refuses nan
        raise Misconfigured(f"not a number of seconds: {env[name]!r}", where=name, fix=f"set {name}={default:g}")
    return value


def _data_dir(env: Mapping[str, str]) -> Path:
    """Return the data directory: as set, else the platform's directory for user data."""
    home = Path(env.get("HOME") or "~")
    mac = home / "Library" / "Application Support"
    shared = mac if sys.platform == "darwin" else env.get("XDG_DATA_HOME") or home / ".local" / "share"
    folder = _expand(env.get("PLANGATE_DATA_DIR") or Path(shared) / "plangate")
    if str(folder).startswith("~"):  # as in a container whose user has no entry in /etc/passwd
        fix = "set PLANGATE_DATA_DIR to a folder that this user can write to"
        raise Misconfigured("this user has no home directory to keep data in", where="HOME", fix=fix)
    return folder.absolute()


def _expand(path: str | Path) -> Path:
    """Return a path with a leading ``~`` replaced; unchanged, such as ``~/x``, if no such home directory is known."""
    return Path(os.path.expanduser(path))


def _positive(env: Mapping[str, str], name: str) -> int | None:
    value = env.get(name)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise Misconfigured(
            f"not a positive whole number: {value!r}", where=name, fix=f"set {name} to one, or unset it"
        )
    return int(value)


def _object(env: Mapping[str, str], name: str) -> Mapping[str, Any]:
    try:
        value = json.loads(env.get(name, "{}"))
    except ValueError as error:
        raise Misconfigured(f"not JSON: {error}", where=name, fix="write a JSON object") from error
    if not isinstance(value, dict):
        raise Misconfigured("not a JSON object", where=name, fix='write something like {"service_tier": "auto"}')
    return value

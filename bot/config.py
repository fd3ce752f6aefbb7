"""Settings, read once: the environment (operators), and .github/plangate.yml of the default branch (maintainers).

The only reader of os.environ and of the configuration file. Precedence: flag, environment, file, default. Secrets are
typed so that they never print.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.core.errors import Misconfigured

if TYPE_CHECKING:
    from bot.configuration import Configuration

PATH = ".github/plangate.yml"


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
class Settings:
    """The operator's settings (interfaces.md, Environment)."""

    api_key: Secret = field(default_factory=lambda: Secret(""))
    base_url: str | None = None
    data_dir: Path = Path()
    state_key: Secret = field(default_factory=lambda: Secret(""))
    output_cap: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)


def settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the environment; raises Misconfigured naming the variable. An empty variable counts as unset."""
    env = {key: value for key, value in (os.environ if environ is None else environ).items() if value.strip()}
    return Settings(
        api_key=Secret(env.get("ANTHROPIC_API_KEY", "")),
        base_url=env.get("ANTHROPIC_BASE_URL"),
        data_dir=_data_dir(env),
        state_key=Secret(env.get("PLANGATE_STATE_KEY", "")),
        output_cap=_positive(env, "PLANGATE_MAX_OUTPUT_TOKENS"),
        extra_body=_object(env, "PLANGATE_EXTRA_BODY"),
    )


def configuration(text: str, where: str = PATH) -> "Configuration":
    """Read a configuration file's text; raises Misconfigured with line, column and the nearest key."""
    from bot.configuration import parse

    return parse(text, where)


def _data_dir(env: Mapping[str, str]) -> Path:
    """Give the data directory: as set, else the platform's place for a person's data."""
    if chosen := env.get("PLANGATE_DATA_DIR"):
        return Path(chosen).expanduser().absolute()
    home = Path(env.get("HOME") or "~").expanduser()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "plangate"
    return Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "plangate"


def _positive(env: Mapping[str, str], name: str) -> int | None:
    value = env.get(name)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise Misconfigured(f"not a positive whole number: {value!r}", where=name, mend=f"set {name}=32000 or unset it")
    return int(value)


def _object(env: Mapping[str, str], name: str) -> Mapping[str, Any]:
    try:
        value = json.loads(env.get(name, "{}"))
    except ValueError as error:
        raise Misconfigured(f"not JSON: {error}", where=name, mend="write a JSON object") from error
    if not isinstance(value, dict):
        raise Misconfigured("not a JSON object", where=name, mend='write something like {"service_tier": "auto"}')
    return value

"""The fields of the set-up's form, and the mistakes in them."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

LONGEST_NAME: Final = 34
"""https://docs.github.com/en/apps/creating-github-apps/registering-a-github-app/registering-a-github-app"""
HOOK_PATH: Final = "/webhooks/github"
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class AppForm:
    """What somebody typed, and the mistakes in it by field."""

    is_for_organization: bool = True
    organization: str = ""
    name: str = field(default_factory=lambda: f"plangate-{secrets.token_hex(2)}")
    url: str = ""
    mistakes: dict[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """The organization that will own the App, or "" for the person's own account."""
        return self.organization if self.is_for_organization else ""

    @property
    def webhook_url(self) -> str:
        """Where GitHub sends its events."""
        return self.url.rstrip("/").removesuffix(HOOK_PATH) + HOOK_PATH


def read_form(fields: Mapping[str, str], server_url: str) -> AppForm:
    """Return the form with its mistakes."""
    name, url = fields.get("name", "").strip(), fields.get("url", "").strip()
    organization, is_for_organization = fields.get("organization", "").strip(), fields.get("owner") != "person"
    mistakes = {}
    if is_for_organization and not _LOGIN.fullmatch(organization):
        mistakes["organization"] = "Write the organization's login, as in github.com/LOGIN."
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        mistakes["name"] = f"Write a name of 1 to {LONGEST_NAME} characters."
    if mistake := _url_mistake(url, server_url):
        mistakes["url"] = mistake
    return AppForm(is_for_organization, organization, name, url, mistakes)


def _url_mistake(url: str, server_url: str) -> str:
    """Return what is wrong with the public address. Plain HTTP is enough for a server that uses it itself."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return "Write an address such as https://plangate.example.com"
    if not is_whole or parts.query or parts.fragment or parts.username is not None:
        return "Write an address such as https://plangate.example.com"
    if parts.scheme not in {"https", urlsplit(server_url).scheme}:
        return "The address must begin with https:// because deliveries quote your repositories."
    if _is_loopback(parts):
        return "GitHub cannot reach this machine by that name. Write the address under which your proxy is reached."
    return ""


def _is_loopback(parts: SplitResult) -> bool:
    name = parts.hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")

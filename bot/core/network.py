"""Network hosts: their names and tiers, and which of them a sandbox may reach (N1, N1a, N2)."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bot.core.errors import Misconfigured
from bot.core.paths import Tier

# --- Host names, allow-lists, and risk tiers (N1, N1a, N2) -----------------------------------------------------------
# Rules
# - A name has one spelling: lower case, ASCII, two or more labels, the last one not a number. Any other spelling is
#   refused, never repaired: no address in any spelling, no port, no final dot, no percent sign, no Unicode.
# - An allow-list holds exact names and `*.domain`, which covers what is below the domain but not the domain itself.

LONGEST: Final = 253
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"(?:{_LABEL}\.)+(?=[a-z])(?!0x){_LABEL}")

NEVER: Final = ("api.github.com", "*.api.github.com", "uploads.github.com", "metadata.google.internal")
"""Never open, even if a list names them (N2). The model reads GitHub through tools pinned to one repository."""

OPEN_TO_WRITES: Final = tuple(
    # Code forges, and the hosts that serve content uploaded by anybody.
    "github.com *.github.com *.github.io *.githubusercontent.com ghcr.io gitlab.com *.gitlab.com *.gitlab.io "
    "bitbucket.org *.bitbucket.org codeberg.org *.codeberg.org *.codeberg.page git.sr.ht *.sr.ht gitea.com "
    "*.gitea.com sourceforge.net *.sourceforge.net dev.azure.com *.visualstudio.com huggingface.co *.huggingface.co "
    # Upload hosts for packages and images, including registries that take uploads under the name they serve from.
    "upload.pypi.org test.pypi.org registry.npmjs.org npm.pkg.github.com crates.io rubygems.org *.rubygems.org "
    "push.fury.io repo.packagist.org hex.pm www.nuget.org api.nuget.org docker.io *.docker.io hub.docker.com quay.io "
    "*.quay.io central.sonatype.com oss.sonatype.org jsr.io *.anaconda.org "
    # Paste sites, file drops, tunnels, and request catchers.
    "pastebin.com *.pastebin.com paste.ee paste.rs bpa.st ix.io 0x0.st dpaste.com dpaste.org hastebin.com rentry.co "
    "termbin.com transfer.sh file.io bashupload.com catbox.moe *.catbox.moe webhook.site *.webhook.site "
    "requestbin.com *.requestbin.com *.pipedream.net *.ngrok.io *.ngrok.app *.ngrok-free.app *.trycloudflare.com "
    "*.loca.lt *.oast.fun *.oast.pro *.oast.site *.oastify.com *.interact.sh httpbin.org *.beeceptor.com "
    # Chats, documents, and buckets that accept data from unknown senders.
    "discord.com discordapp.com hooks.slack.com api.telegram.org docs.google.com drive.google.com "
    "storage.googleapis.com *.storage.googleapis.com *.amazonaws.com *.blob.core.windows.net *.r2.dev "
    "*.cloudfunctions.net *.workers.dev *.pages.dev *.vercel.app *.netlify.app *.herokuapp.com".split()
)
"""Hosts that accept writes from anyone. Whatever a sandbox reaches there, it can leak there (N1a)."""


def is_name(text: str) -> bool:
    """Return whether a text is a host name in its one spelling."""
    return len(text) <= LONGEST and _NAME.fullmatch(text) is not None


def require_host_pattern(text: str) -> str:
    """Return an allow-list entry unchanged. Raises Misconfigured if it is neither a name nor ``*.domain``."""
    if not is_name(text.removeprefix("*.")):
        raise Misconfigured(f"not a host: {text[:100]!r}", where="hosts", fix="write pypi.org or *.pypi.org")
    return text


def covers(entry: str, host: str) -> bool:
    """Return whether an allow-list entry covers a name, or everything that another entry covers."""
    return host == entry or (entry.startswith("*.") and host.removeprefix("*.").endswith(entry[1:]))


def is_covered(host: str, entries: Iterable[str]) -> bool:
    return any(covers(entry, host) for entry in entries)


def intersection(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    """Return the entries that both lists cover: named by one and covered by the other, in either direction."""
    mine, theirs = tuple(one), tuple(other)
    common = [entry for entry in mine if is_covered(entry, theirs)] + [
        entry for entry in theirs if is_covered(entry, mine)
    ]
    return tuple(dict.fromkeys(common))


def open_to_writes(entry: str) -> bool:
    """Return whether an allow-list entry reaches, or may reach, a host that accepts writes from anyone."""
    return any(covers(host, entry) or covers(entry, host) for host in OPEN_TO_WRITES)


def tier_of_hosts(entries: Iterable[str]) -> Tier:
    """Return the tier of opening hosts: high if anyone may write to one of them, low for no hosts."""
    hosts = tuple(entries)
    if any(open_to_writes(entry) for entry in hosts):
        return Tier.HIGH
    return Tier.NORMAL if hosts else Tier.LOW


def reachable_hosts(planned: Iterable[str], configured: Iterable[str], tier: str) -> tuple[str, ...]:
    """Return the hosts that a sandbox may reach: those in both the approved plan and the configuration (N1a).

    Leaves out what is not a host, what is never open, and, unless the plan has tier high, hosts that accept writes.
    """
    hosts = (entry for entry in planned if is_name(entry.removeprefix("*.")))
    common = (entry for entry in intersection(hosts, configured) if not is_covered(entry, NEVER))
    return tuple(entry for entry in common if tier == Tier.HIGH or not open_to_writes(entry))


# --- Network access of a sandbox, and fetched pages ------------------------------------------------------------------
# `reachable_hosts` chooses the hosts of approved work, and `workspace.egress.proxy` enforces them.


@dataclass(frozen=True, slots=True)
class NetworkDecision:
    """One decision of the network policy: the requested host and port, whether access was allowed, and why not."""

    host: str
    port: int
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """The hosts that a sandbox may reach; none if no host is named."""

    hosts: tuple[str, ...] = ()
    """Names, and ``*.domain``."""
    listener: Callable[[NetworkDecision], None] = lambda _: None
    """Called with each decision."""


NO_NETWORK: Final = Network()


@dataclass(frozen=True, slots=True)
class WebPage:
    """A web page as text, and whether it was cut. `moved` is its new address if it moved to another host."""

    url: str
    text: str
    cut: bool = False
    moved: str = ""
    size: int = 0
    """Bytes received over the wire."""

"""Runs git's own upload-pack and receive-pack, and caches the answers that depend only on a configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from bot.testing.github.bare import Bare, GitRefusedError, bare_environment

_DECISIVE = r"^(transfer\.|core\.alternate|extensions\.|lsrefs\.|receive\.(advertise|cert)|uploadpack\.hiderefs)"
"""Options that change how git lists refs. The simulated GitHub sets none of them."""


@dataclass(frozen=True, slots=True)
class ConfiguredBare:
    """A repository as a cache key: equal to every other one with the same configuration."""

    configuration: bytes
    bare: Bare = field(compare=False)

    @classmethod
    def of(cls, bare: Bare) -> ConfiguredBare:
        """Return a repository with its configuration as it is now."""
        return cls((bare.folder / "config").read_bytes(), bare)


def run_service(bare: Bare, service: str, option: str, environment: Mapping[str, str], *, body: bytes = b"") -> bytes:
    """Return the answer of git's service. An error is part of the answer."""
    command = ["git", service.removeprefix("git-"), option, "."]
    return subprocess.run(
        command, cwd=bare.folder, input=body, env=environment, capture_output=True, check=False
    ).stdout


@lru_cache(maxsize=64)
def fetch_capabilities(served: ConfiguredBare) -> bytes:
    """Return a server's capabilities in version 2 of the protocol. They name no refs, so git is asked only once.

    https://git-scm.com/docs/protocol-v2#_capability_advertisement
    """
    environment = {**bare_environment(), "GIT_PROTOCOL": "version=2"}
    return run_service(served.bare, "git-upload-pack", "--http-backend-info-refs", environment)


@lru_cache(maxsize=64)
def push_capabilities(served: ConfiguredBare) -> bytes:
    """Return a server's capabilities for a push, which follow its first ref. Git is asked only once.

    https://git-scm.com/docs/pack-protocol#_reference_discovery
    """
    advertised = run_service(served.bare, "git-receive-pack", "--http-backend-info-refs", bare_environment())
    return advertised[: int(advertised[:4], 16)].partition(b"\0")[2].rstrip(b"\n")


@lru_cache(maxsize=64)
def hidden_from_pushes(served: ConfiguredBare) -> tuple[str, ...] | None:
    """Return the prefixes that `receive.hideRefs` names, or None if other options decide which refs are listed.

    https://git-scm.com/docs/git-config#Documentation/git-config.txt-transferhideRefs
    """
    if _options(served.bare, "--name-only", "--get-regexp", _DECISIVE):
        return None
    hidden = _options(served.bare, "--get-all", "receive.hideRefs")
    return None if any(prefix.startswith(("!", "^")) for prefix in hidden) else tuple(hidden)


def _options(bare: Bare, *question: str) -> list[str]:
    """Return what git prints of a repository's own options; nothing if it has none of them."""
    try:
        return bare.text("config", "--local", *question).splitlines()
    except GitRefusedError:
        return []

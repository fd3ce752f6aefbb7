"""Builds from settings and configuration what each way to run the bot needs: key, model, gate, limits, policy."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bot.agent.model.request import ConfiguredModel
from bot.agent.permissions.tool_gate import Mode, PermissionGate, ToolRules, parse_rule
from bot.agent.subagents.types import FOLDER, LARGEST, MOST
from bot.agent.tools.registry import ALL, READING_GITHUB, READING_WEB, by_name
from bot.agent.tools.session_tools import RESOURCE_REQUEST
from bot.clock import SystemClock
from bot.config.settings import Identity, Settings
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured
from bot.core.names import FETCH, CommitId
from bot.core.network import open_to_writes
from bot.core.turn import Actor
from bot.ports import Clock, Model, Web
from bot.store.sealing import StateKey, key_file
from bot.telemetry import Collector
from bot.workspace.egress.route import EgressRoute
from bot.workspace.mirror import Mirror
from bot.workspace.publish import Committer
from bot.workspace.workspace import SandboxLimits

if TYPE_CHECKING:
    from bot.agent.model.anthropic_model import AnthropicModel
    from bot.agent.model.connection import WorkloadIdentity


def model_of(settings: Settings, clock: Clock | None = None) -> "AnthropicModel":
    """Return a client of the model. It imports and connects nothing before its first use."""
    from bot.agent.model.anthropic_model import AnthropicModel, RetryPolicy
    from bot.agent.model.connection import FIRST_BYTE

    usual = RetryPolicy()
    silence = settings.stall_seconds or usual.silence
    return AnthropicModel(
        clock or SystemClock(),
        settings.api_key.reveal(),
        base_url=settings.base_url,
        output_cap=settings.output_cap,
        extra_body=settings.extra_body,
        patience=replace(usual, silence=silence, quiet=max(usual.quiet, FIRST_BYTE * silence)),
        identity=_identity_of(settings.identity) if settings.identity else None,
    )


def configured_model(keys: Configuration, client: Model) -> ConfiguredModel:
    clear_at = keys.compaction.clear_at_tokens
    return ConfiguredModel(client, keys.models.fallback or "", keys.models.effort or "", clear_at)


def collector_of(settings: Settings) -> Collector:
    """Return the receiver of spans. It discards them unless the operator set an endpoint."""
    pairs = (pair.partition("=") for pair in settings.trace_headers.reveal().split(",") if "=" in pair)
    return Collector(settings.traces, {name.strip(): unquote(value.strip()) for name, _, value in pairs})


def _identity_of(identity: Identity) -> "WorkloadIdentity":
    from bot.agent.model.connection import WorkloadIdentity

    return WorkloadIdentity(
        identity.rule_id,
        identity.organization_id,
        identity.service_account_id,
        identity.request_url,
        partial(Path(identity.token_file).read_text, encoding="utf-8")
        if identity.token_file
        else identity.request_token.reveal,
        identity.workspace_id,
    )


def local_key_of(settings: Settings) -> StateKey:
    """Return the state key for local runs: the operator's, else from a key file in the data directory."""
    state_key = settings.state_key
    return StateKey.of(state_key.reveal()) if state_key else key_file(settings.data_dir / "state.key")


async def agents_of(mirror: Mirror, head: CommitId) -> dict[str, str]:
    """Return the project's own sub-agent types at a commit: path -> text.

    Reads the mirror and never a checkout, which others may have written to. A file that is too large, or that is not
    text, counts as too large.
    """
    await mirror.ensure(head)
    paths = [path for path in await mirror.paths(head, FOLDER) if path.endswith(".md")][: MOST + 1]
    contents = [await mirror.read(head, path, limit=LARGEST) for path in paths]
    too_large = b"x" * (LARGEST + 1)
    return {
        path: (too_large if content is None else content).decode(errors="replace")
        for path, content in zip(paths, contents, strict=True)
    }


def gate_of(keys: Configuration, *, sandboxed: bool) -> PermissionGate:
    """Return the tool gate of a configuration.

    Raises Misconfigured for a rule about an unknown tool, and for bypassPermissions without a sandbox (P1).
    """
    if not sandboxed and Mode(keys.execution.mode) is Mode.BYPASS:
        raise Misconfigured(
            "bypassPermissions needs the sandbox",
            where="execution.mode",
            fix="set it to acceptEdits, or run with the sandbox",
        )
    tools = keys.tools
    rules = ToolRules(*(tuple(map(parse_rule, texts)) for texts in (tools.allow, tools.ask, tools.deny)))
    tool_names = {*by_name((*ALL, *READING_WEB, *READING_GITHUB)), "Task", RESOURCE_REQUEST.name}
    for rule in (*rules.allow, *rules.ask, *rules.deny):
        if rule.tool not in tool_names:
            from difflib import get_close_matches

            near = get_close_matches(rule.tool, tool_names, 1, 0.0)
            raise Misconfigured(f"no such tool: {rule.tool!r}", where="tools", fix=f"did you mean {near[0]!r}?")
    rehearsed = keys.execution.verify if keys.plan.commands is None else keys.plan.commands
    return PermissionGate(rules, sandboxed=sandboxed, rehearsed=frozenset(rehearsed if sandboxed else ()))


def egress_route_of(settings: Settings) -> EgressRoute:
    """Return the route to the network. It never reaches the API of the configured GitHub server (N2)."""
    api = (urlsplit(url).hostname for url in (settings.github.api_url, settings.github.graphql_url))
    return EgressRoute(never=tuple(host for host in api if host))


def web_of(keys: Configuration, settings: Settings) -> Web | None:
    """Return the web access of WebFetch: the hosts that its allow rules name, or None if they name none.

    A rule without a host allows the sandbox's hosts, except those that anybody can write to: a URL can leak data there,
    and no plan was approved yet (N1a).
    """
    domains = [rule.domain for rule in map(parse_rule, keys.tools.allow) if rule.tool == FETCH]
    hosts = [domain for domain in domains if domain != "*"]
    if "*" in domains:
        hosts += [host for host in keys.sandbox.hosts if not open_to_writes(host)]
    if not hosts:
        return None
    from bot.workspace.egress.fetch import Fetcher

    return Fetcher(tuple(hosts), egress_route_of(settings))


def sandbox_limits_of(keys: Configuration) -> SandboxLimits:
    sandbox = keys.sandbox
    return SandboxLimits(sandbox.memory_mb, sandbox.minutes * 60, mounts=tuple(sandbox.mounts))


def server_host(settings: Settings) -> str:
    return urlsplit(settings.github.server_url).hostname or "github.com"


def committer_of(settings: Settings, bot: Actor | None = None) -> Committer:
    """Return the committer: the bot's account on GitHub, so that commits are attributed to it, or a neutral one."""
    if bot is None:
        return Committer(key=settings.signing_key)
    return Committer(bot.login, bot.noreply(server_host(settings)), settings.signing_key)

"""Chooses the variant of the workflows for a project, and gives the reason for each choice in one line.

The first of these sources decides: the command line, the existing workflow, GitHub, a person's answer, the default.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bot.cli.init import configured_mention, require_repository, written_variant
from bot.cli.workflow_variant import (
    ACCOUNT_KEY_NAME,
    ACTION,
    ENVIRONMENT,
    GITHUB,
    KEY_NAME,
    Variant,
    installed_version,
    is_login,
    is_word,
)
from bot.compose.release import ProjectRemote, origin_remote, release_commit
from bot.compose.repository_checkup import RepositoryConstraints, repository_constraints
from bot.config.settings import Settings
from bot.core.errors import Misconfigured, PlangateError

Ask = Callable[[str], bool]
"""Asks a person a question that is answered with yes or no."""
RUNNER_ON_ENTERPRISE_SERVER: Final = "self-hosted"
_FREE: Final = "Is the repository private, and its owner on GitHub's Free plan?"
_PIN: Final = "Does its organization require that actions are pinned to a commit?"
_TOKENS: Final = f"{GITHUB}/{ACTION}/blob/main/docs/tokens.md"
_RISK: Final = "whoever can push a branch can run a workflow that reads it"


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The options of the command line; None if an option was not given."""

    key_place: str | None = None
    pin: str | None = None
    """A tag; "" for the release of this version."""
    server: str | None = None
    runner: str | None = None
    account: str | None = None
    attest: bool | None = None


@dataclass(slots=True)
class Choice:
    """A variant, the project's place on its server, and the reasons for the choice, one line each."""

    variant: Variant
    origin: ProjectRemote | None
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The sources of a choice: the existing variant, the settings on GitHub, and a person who answers questions."""

    before: Variant | None
    constraints: RepositoryConstraints | None
    ask: Ask | None


def choose_variant(project: Path, options: InitOptions, settings: Settings, ask: Ask | None = None) -> Choice:
    """Return the variant for a project. `ask` is None if nobody can answer.

    The token is shown only to the server that the settings name. Raises Misconfigured, and Transient if the release
    that is to be pinned cannot be looked up.
    """
    require_repository(project)
    return asyncio.run(_choose(project, options, settings, ask))


async def _choose(project: Path, options: InitOptions, settings: Settings, ask: Ask | None) -> Choice:
    """Return the variant for a project: from the options, from the workflows it has, or from its repository."""
    written, origin = written_variant(project), await origin_remote(project)
    start = written or Variant()
    server = _server(options.server or (written.server if written else origin.server if origin else GITHUB))
    mention = configured_mention(project)
    choice = Choice(replace(start, mention=mention, server=server, tag="", commit=""), origin)
    if choice.variant.is_enterprise_server:
        runner = start.runner if written and written.is_enterprise_server else RUNNER_ON_ENTERPRISE_SERVER
        choice.variant = replace(choice.variant, runner=runner)
        choice.reasons.append(
            f"server: {server}, a GitHub Enterprise Server: the workflows leave out queue and deployment, "
            f"which older servers do not know, and run on {options.runner or runner} (--runner)"
        )
    sources = _Sources(written, await _constraints(choice, settings), ask)
    _choose_key_place(choice, options, sources)
    if options.runner is not None:
        choice.variant = replace(choice.variant, runner=_word(options.runner, "--runner"))
    if options.account is not None:
        if not is_login(options.account):
            raise Misconfigured(f"not a login: {options.account!r}", where="--account", fix="name the bot's account")
        choice.variant = replace(choice.variant, account=options.account)
    _choose_attestation(choice, options)
    await _choose_version(choice, settings, _pinned_tag(options, sources))
    return choice


async def _constraints(choice: Choice, settings: Settings) -> RepositoryConstraints | None:
    """Return the constraints of the repository on GitHub, or None if GitHub cannot be asked."""
    origin, github = choice.origin, settings.github
    if origin is None or origin.server != github.server_url or not (github.token or github.as_app):
        return None
    try:
        return await repository_constraints(settings, origin.name)
    except PlangateError as error:
        choice.reasons.append(f"GitHub could not be asked about {origin.name}: {error.what}")
        return None


def _choose_key_place(choice: Choice, options: InitOptions, sources: _Sources) -> None:
    """Choose where the key is kept: in an environment, which protects it, if the repository can have one."""
    if options.key_place is not None:
        place, why = options.key_place, "as you say"
    elif sources.before is not None:
        place, why = sources.before.key_place, "as the workflow that is there has it"
    elif sources.constraints is not None and sources.constraints.has_environments is not None:
        place = "environment" if sources.constraints.has_environments else "repository"
        why = "the repository's visibility and its owner's plan decide"
    elif sources.ask is not None:
        place, why = ("repository" if sources.ask(_FREE) else "environment"), "as you answered"
    else:
        place, why = "environment", "the default; --secret repository where there are no environments"
    place_name = f"environment {ENVIRONMENT}" if place == "environment" else f"the repository: {_RISK}"
    choice.variant = replace(choice.variant, key_place=place)
    choice.reasons.append(f"secret {KEY_NAME}: in {place_name} ({why})")


def _choose_attestation(choice: Choice, options: InitOptions) -> None:
    """Have GitHub attest receipts if the person says so, or if the workflow that is there has it.

    GitHub Enterprise Server has no attestations: https://github.com/actions/attest#readme
    """
    if options.attest is not None:
        choice.variant = replace(choice.variant, attest="true" if options.attest else "")
    if not choice.variant.attest:
        return
    if choice.variant.is_enterprise_server:
        fix = "leave it out: approvers can sign receipts with plangate sign"
        raise Misconfigured("GitHub Enterprise Server has no attestations", where="--attest", fix=fix)
    choice.reasons.append(
        "receipts: attested by GitHub, with id-token: write and attestations: write; "
        "in private repositories that needs GitHub Enterprise Cloud"
    )


def _pinned_tag(options: InitOptions, sources: _Sources) -> str | None:
    """Return the tag to pin, "" for this version's release, or None for none."""
    if options.pin is not None:
        return options.pin
    if sources.before is not None:
        return "" if sources.before.commit else None
    if sources.constraints is not None and sources.constraints.must_be_pinned is not None:
        return "" if sources.constraints.must_be_pinned else None
    return "" if sources.ask is not None and sources.ask(_PIN) else None


async def _choose_version(choice: Choice, settings: Settings, tag: str | None) -> None:
    if tag is None:
        choice.reasons.append("action: follows its major version; --pin names the commit of a release instead")
        return
    release = _word(tag or f"v{installed_version()}", "--pin")
    commit = await release_commit(settings.network, choice.variant.server, ACTION, release)
    choice.variant = replace(choice.variant, tag=release, commit=commit)
    choice.reasons.append(f"action: pinned to {release}, commit {commit[:12]}")


def remaining_steps(choice: Choice) -> list[str]:
    """Return the three steps that remain, with the addresses of their pages."""
    variant, origin = choice.variant, choice.origin
    name = origin.name if origin else "OWNER/REPO"
    web = f"{variant.server}/{name}/settings"
    key = f"Add the secret {KEY_NAME}: {web}/secrets/actions/new"
    if variant.key_place == "environment":
        key = (
            f"Make the environment {ENVIRONMENT}, limit it to the default branch, and put the secret {KEY_NAME} there: "
            f"{web}/environments/new"
        )
    steps = [
        key,
        f'Tick "Allow GitHub Actions to create and approve pull requests": {web}/actions',
        "Commit these files and push them to the default branch. Then open an issue that begins with "
        f"{variant.mention} and says what you want: {variant.server}/{name}/issues/new",
    ]
    if variant.account:
        steps[1] = (
            f"Add the secret {ACCOUNT_KEY_NAME}, a token of {variant.account}, at the same place. "
            f"What it may do: {_TOKENS}"
        )
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, start=1)]
    if variant.is_enterprise_server:
        numbered.append(
            f"The server must offer {ACTION} (GitHub Connect, or a copy of it), and its runners git, gh, python3, "
            "bubblewrap, and ripgrep."
        )
    return [*numbered, f"With your token in GH_TOKEN, this checks all of it: {_checkup_command(variant, name)}"]


def _checkup_command(variant: Variant, name: str) -> str:
    """Return the command that checks the set-up. It asks github.com unless variables name another server."""
    command = f"plangate doctor --repo {name}"
    if not variant.is_enterprise_server:
        return command
    return f"GITHUB_SERVER_URL={variant.server} GITHUB_API_URL={variant.server}/api/v3 {command}"


def _server(text: str) -> str:
    if not text.startswith(("https://", "http://")) or any(sign.isspace() for sign in text):
        raise Misconfigured(f"not an address: {text!r}", where="--server", fix="write something like https://host")
    return text.rstrip("/")


def _word(text: str, where: str) -> str:
    """Return a text that a workflow can hold as one word. Raises Misconfigured for any other."""
    if not is_word(text):
        raise Misconfigured(f"not a name: {text!r}", where=where, fix="use letters, digits, dots, and dashes")
    return text

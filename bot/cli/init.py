"""Writes a project's workflows and configuration, and chooses their variant."""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from bot.cli.workflow_variant import (
    ACCOUNT_KEY_NAME,
    ACTION,
    ENVIRONMENT,
    GITHUB,
    KEY_NAME,
    SHIPPED,
    SWEEP,
    WORKFLOW,
    Stamp,
    Variant,
    installed_version,
    is_login,
    is_word,
    variant_in,
    workflow_text,
)
from bot.compose.release import ProjectRemote, origin_remote, release_commit
from bot.compose.repository_checkup import RepositoryConstraints, repository_constraints
from bot.config.environment import configuration
from bot.config.settings import PATH, Settings
from bot.core.errors import Misconfigured, PlangateError

# --- Writing the workflows and the configuration ----------------------------------------------------------------------
# A file with a person's edits is kept, unless that person asks for a new one and keeps a copy. Nothing outside the
# project's own folder is read or written.

COPY: Final = ".old"
"""Suffix for the copy of a replaced file. Actions ignores files with such names."""
_THEIRS: Final = frozenset({"name", "runs-on", "timeout-minutes", "environment", "steps", "schedule", "description"})
"""Keys that must exist, with values that a project may choose."""
_CHECKS: Final = ".permissions.checks"
_OWN_TOKEN: Final = re.compile(r"^\s+github_token:(?!.*(?:github\.token|secrets\.GITHUB_TOKEN))", re.MULTILINE)
_SCHEDULED: Final = frozenset({"sweep"})
"""Jobs with a condition that a project may choose too, because it names the schedule."""
_SETTINGS: Final = """\
# Plangate's settings for this project, read only from the default branch. Every key has a default: `plangate schema`
# prints them all. These are the ones that projects change most; take the # away.

mention: "@plangate"

# approve:
#   roles: [maintain, admin]  # who may approve a plan

# plan:
#   commands: ["make test"]  # what the planner may run, on a copy that is thrown away

# execution:
#   verify: ["make test"]  # what must pass before a pull request is opened; a failure is shown at its top

# sandbox:
#   hosts: [pypi.org, files.pythonhosted.org]  # what approved work may reach
#   setup: ["python3 -m venv .venv"]  # what makes a checkout ready for it

# budget:
#   session_usd: 5
"""


def write(project: Path, variant: Variant | None = None, *, force: bool = False) -> Iterator[str]:
    """Write the files, and yield one line for each. Raises Misconfigured if that is impossible.

    The workflow reacts to the bot's name in the project's configuration. An existing workflow is replaced if nobody has
    edited it since `init` wrote it. One with edits is replaced only with `force`, which keeps a copy beside it. The
    configuration is never replaced.
    """
    require_repository(project)
    full_variant = replace(variant or Variant(), mention=configured_mention(project))
    for name in SHIPPED:
        yield _write_workflow(project, name, workflow_text(full_variant, name), force=force)
    yield f"wrote {PATH}" if _write_new_file(project, PATH, _SETTINGS) else f"kept {PATH}: it already exists"


def require_repository(project: Path) -> None:
    """Raise Misconfigured unless a folder is the top of a git repository."""
    if not (project / ".git").exists():
        raise Misconfigured("not the top of a git repository", where=str(project), fix="name one: plangate init DIR")


def written_variant(project: Path) -> Variant | None:
    """Return the variant of the project's workflow as `init` wrote it, or None. Raises Misconfigured."""
    stamp = Stamp.of(_read(project, WORKFLOW))
    return stamp.variant if stamp else None


def configured_mention(project: Path) -> str:
    """Return the mention that calls the bot, from the project's configuration. Raises Misconfigured."""
    return configuration(_read(project, PATH)).mention


def _write_workflow(project: Path, name: str, text: str, *, force: bool) -> str:
    if _write_new_file(project, name, text):
        return f"wrote {name}"
    there = _read(project, name)
    if there == text:
        return f"kept {name}: it is up to date"
    stamp = Stamp.of(there)
    if stamp is not None and not stamp.edited:
        _replace(project, name, text)
        return f"updated {name}: nobody had edited it since plangate init {stamp.version} wrote it"
    if not force:
        reason = "somebody has edited it" if stamp else "its last line is not the one that plangate init writes"
        return f"kept {name}: {reason}. plangate init --force replaces it and keeps a copy as {name}{COPY}"
    if not _write_new_file(project, name + COPY, there):
        raise Misconfigured("there is a copy of an earlier workflow already", where=name + COPY, fix="move it away")
    _replace(project, name, text)
    return f"replaced {name}: the earlier one is {name}{COPY}"


def _replace(project: Path, name: str, text: str) -> None:
    try:
        _inside(project, name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_written(name, error) from error


def findings_of_project(project: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the text of the project's workflow and what its workflows lack, or None if it has no workflow.

    Raises Misconfigured if a workflow or the configuration cannot be read.
    """
    main = _read(project, WORKFLOW)
    missing = outdated_parts(main, _read(project, SWEEP), _read(project, PATH))
    return None if missing is None else (main, missing)


def outdated_parts(main: str, sweep: str, settings: str) -> tuple[str, ...] | None:
    """Return what two workflows lack compared with this version's in their variant, or None without the first.

    `settings` is the text of the configuration. Raises Misconfigured if one of the texts cannot be read.
    """
    if not main:
        return None
    variant = variant_in(main, configuration(settings).mention)
    our_main, our_sweep = (_parse_workflow(workflow_text(variant, name), name) for name in SHIPPED)
    parts = tuple(_missing(our_main, _parse_workflow(main, WORKFLOW), ""))
    if not sweep:
        return (*parts, SWEEP)
    return (*parts, *(f"{SWEEP}: {at}" for at in _missing(our_sweep, _parse_workflow(sweep, SWEEP), "")))


def creates_check_runs(main: str) -> bool:
    """Return whether the job that publishes work may create the check run "Plan approved". Raises Misconfigured."""
    workflow = _parse_workflow(main, WORKFLOW)
    jobs = workflow.get("jobs") if isinstance(workflow, dict) else None
    work = jobs.get("work") if isinstance(jobs, dict) else None
    permissions = work.get("permissions") if isinstance(work, dict) else None
    return isinstance(permissions, dict) and permissions.get("checks") == "write"


def wakes_itself(main: str) -> bool:
    """Return whether a workflow gives the bot its own token, and also starts jobs for comments of the bot's account."""
    return _OWN_TOKEN.search(main) is not None and "sender.login != '" not in main


def version_note(main: str) -> str:
    """Return which version wrote a workflow, whether somebody has edited it, and whether this version is another."""
    stamp = Stamp.of(main)
    if stamp is None:
        return "not written by this version of plangate init"
    edits = ", edited since" if stamp.edited else ""
    return f"written by plangate init {stamp.version}{edits}"


def is_outdated(main: str) -> bool:
    """Return whether another version of `init` than this one wrote a workflow."""
    stamp = Stamp.of(main)
    return stamp is not None and stamp.version != installed_version()


@lru_cache(maxsize=8)
def _parse_workflow(text: str, name: str) -> Any:
    """Return a parsed workflow, cached because parsing takes 30 ms. Callers must not change it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        problem = " ".join(str(error).split())
        raise Misconfigured(f"not YAML: {problem}", where=name, fix="correct the line") from error


def _missing(ours: Any, theirs: Any, at: str) -> Iterator[str]:
    if not isinstance(ours, dict):
        enough = at.endswith(_CHECKS) and theirs == "read"  # the check run is optional
        if ours != theirs and not enough:
            yield at
        return
    for key, value in ours.items():
        where = f"{at}.{key}" if at else str(key)
        if not isinstance(theirs, dict) or key not in theirs:
            yield where
        elif key not in _THEIRS and not (key == "if" and at.rpartition(".")[2] in _SCHEDULED):
            yield from _missing(value, theirs[key], where)


def _inside(project: Path, name: str) -> Path:
    """Return the path of a file of the project. Raises Misconfigured if a link leads out of the project."""
    path = project / name
    if not path.resolve().is_relative_to(project.resolve()):
        raise Misconfigured("a link leads out of the project", where=name, fix="replace the link by a folder")
    return path


def _read(project: Path, name: str) -> str:
    path = _inside(project, name)
    if path.exists() and not path.is_file():  # opening a pipe would wait forever
        raise Misconfigured("this is not a regular file", where=name, fix="remove it")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"cannot be read: {error}", where=name, fix="make it a text file that this user can read"
        ) from error


def _write_new_file(project: Path, name: str, text: str) -> bool:
    """Write a file unless it exists. Return whether it was written."""
    path = _inside(project, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.is_file():
            return False
        raise Misconfigured("this is not a regular file", where=name, fix="remove it") from None
    except OSError as error:
        raise _not_written(name, error) from error
    return True


def _not_written(name: str, error: OSError) -> Misconfigured:
    return Misconfigured(f"cannot be written: {error.strerror}", where=name, fix="let this user write there")


# --- The choice of a variant, with a reason for each part -------------------------------------------------------------
# The first of these sources decides: the command line, the existing workflow, GitHub, a person's answer, the default.

Ask = Callable[[str], bool]
"""Asks a person a question that is answered with yes or no."""
RUNNER_ON_ENTERPRISE_SERVER: Final = "self-hosted"
_FREE: Final = "Is the repository private, and its owner on GitHub's Free plan?"
_PIN: Final = "Does its organization require that actions are pinned to a commit?"
_TOKENS: Final = f"{GITHUB}/{ACTION}/blob/main/docs/tokens.md"
_RISK: Final = "whoever can push a branch can run a workflow that reads it"


@dataclass(frozen=True, slots=True)
class InitOptions:
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

    The token is shown only to the server that the settings name. Raises Misconfigured, and Transient if the release to
    pin cannot be read from its server.
    """
    require_repository(project)
    return asyncio.run(_choose(project, options, settings, ask))


async def _choose(project: Path, options: InitOptions, settings: Settings, ask: Ask | None) -> Choice:
    """Return the variant for a project: from the options, its existing workflows, or its repository on GitHub."""
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
    """Choose where the key is kept: in an environment, which protects the key, if the repository can have one."""
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
    """Have GitHub attest receipts if the person says so, or if the existing workflow does so.

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
    if not is_word(text):
        raise Misconfigured(f"not a name: {text!r}", where=where, fix="use letters, digits, dots, and dashes")
    return text

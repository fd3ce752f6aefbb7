"""Checks of `plangate doctor`: who the bot is on GitHub, its permissions, and its database."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Settings
from bot.core.errors import PlangateError, Refused
from bot.core.turn import ActorKind
from bot.github import repository, tasks
from bot.github.client import GitHubClient
from bot.github.repository import branch_rules
from bot.github.turns import LABEL
from bot.service.connections import WRITING_CHECKS, Connections, ServedRepository, missing_permissions
from bot.store.postgres.migrations import Inspection, inspect

# --- GitHub checks: the bot's account and its permissions -------------------------------------------------------------

REPOSITORIES: Final = 50
"""Maximum number of repositories whose labels and rules are read."""
SCOPE: Final = "repo"
"""Scope without which a classic token can do nothing here. docs/tokens.md lists all scopes."""
USEFUL_SCOPES: Final = {
    "workflow": "it cannot push changes to workflows",
    "read:org": "teams cannot be looked up (approve.teams, CODEOWNERS)",
}
_SHOWN: Final = 5
LABEL_DESCRIPTION: Final = "Calls Plangate: it posts a plan, and waits for approval"
UNASSIGNABLE: Final = f"nobody can assign it to an issue: a mention or the label {LABEL} calls it"
BRANCH: Final = "plangate/doctor"
"""Example of a branch that the bot pushes work to."""
_SIGN: Final = "set PLANGATE_SIGNING_KEY_PATH to an SSH key that is a signing key of the account"
_BYPASS: Final = (
    "let the App bypass its ruleset, or leave plangate/** out of it, or use an account of its own with "
    "PLANGATE_GITHUB_TOKEN and PLANGATE_SIGNING_KEY_PATH"
)
_OWN_ACCOUNT: Final = (
    "make an account that only the bot uses, and set PLANGATE_GITHUB_TOKEN to a token of it: the bot never hears what "
    "its own account says, so this person could neither ask nor approve"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `cure` says how to fix it; "" if nothing is wrong."""

    what: str
    cure: str = ""
    optional: bool = False
    """Whether everything works without what was checked. Such a finding does not affect the exit code."""
    exit_code: int = 2
    """The exit code of `plangate doctor` if this has to be fixed."""

    @property
    def good(self) -> bool:
        return not self.cure


def failed_check(what: str, error: PlangateError, cure: str = "") -> Finding:
    """Return the finding that a check failed with an error. Without a `cure`, the finding has the error's own."""
    cure = cure or error.fix or "correct this, then run plangate doctor again"
    return Finding(f"{what}: {error.what}", cure, exit_code=error.exit_code)


async def check_github(settings: Settings, *, fix: bool = False) -> tuple[Finding, ...]:
    """Check everything that GitHub reports about the credentials. Returns nothing if none are set.

    `fix` creates the label in repositories that lack it.

    Raises Refused or Misconfigured if GitHub rejects the credentials, and Transient if GitHub cannot be reached.
    """
    github = settings.github
    if github.app_id and not github.private_key:
        return (Finding("GitHub: an App without its key", "set PLANGATE_PRIVATE_KEY, or PLANGATE_PRIVATE_KEY_PATH"),)
    if not (github.as_app or github.token):
        return ()
    connections = Connections(settings, SystemClock())
    results = await (_check_app(connections.app()) if github.as_app else _check_account(connections.poller(None)))
    if not any(result.cure and not result.optional for result in results):
        results += await _label(connections, fix=fix)
        results += [_signatures(settings, at) async for at in _repositories_requiring_signatures(connections)]
    await connections.close()
    return (*results, _webhook_secret(github))


async def _check_app(app: GitHubClient) -> list[Finding]:
    """Check an App, and each of its installations.

    https://docs.github.com/en/rest/apps/apps#get-the-authenticated-app
    """
    facts = await app.get("/app")
    results = [Finding(f"GitHub: the App {facts['slug']}")]
    async for installation in repository.app_installations(app):
        results += _installation(installation)
    if len(results) == 1:
        results.append(Finding("GitHub: the App is installed nowhere", f"install it: {facts['html_url']}"))
    return results


def _installation(installation: repository.Installation) -> list[Finding]:
    if installation.suspended:
        return [Finding(f"GitHub: on {installation.account} the App is suspended", f"unsuspend it: {installation.url}")]
    cure = f"grant the App these permissions, then accept them: {installation.url}"
    if missing := missing_permissions(installation.permissions):
        return [Finding(f"GitHub: on {installation.account} the App lacks {', '.join(missing)}", cure)]
    results = [Finding(f"GitHub: on {installation.account} the App has the permissions it needs; {UNASSIGNABLE}")]
    if missing_permissions(installation.permissions, WRITING_CHECKS):
        what = (
            f'GitHub: on {installation.account} the App lacks checks: write, so there is no check run "Plan approved"'
        )
        results.append(Finding(what, cure, optional=True))
    return results


async def _check_account(client: GitHubClient) -> list[Finding]:
    """Check the account of a token, and what it can push to.

    GitHub does not show whether an account is a machine account or a person's. But only a person's own account owns the
    repositories that are worked on.
    """
    bot = await repository.token_bot(client)
    name = Finding(f"GitHub: the account {bot.login}")
    if bot.kind is ActorKind.BOT:  # a job's own token, which may not list repositories
        return [Finding(f"{name.what}; {UNASSIGNABLE}")]
    scopes = _check_scopes(await client.scopes())
    pushable = [reachable.address async for reachable in repository.pushable_repositories(client)]
    own = next((at for at in pushable if at.owner.casefold() == bot.login.casefold()), None)
    if own is not None:
        what = f"GitHub: {bot.login} is a person's own account: it owns {own.full_name}"
        return [Finding(what, _OWN_ACCOUNT)]
    if not pushable:
        return [
            name,
            *scopes,
            Finding(f"GitHub: {bot.login} can push nowhere", "give it the write role in a repository"),
        ]
    what = f"GitHub: {bot.login} can push to {len(pushable)} repositories, and be assigned to their issues"
    return [name, *scopes, Finding(what)]


def _check_scopes(scopes: frozenset[str] | None) -> list[Finding]:
    """Check the scopes of a classic token. GitHub does not report what other tokens may do."""
    if scopes is None:
        return []
    if SCOPE not in scopes:
        return [Finding(f"GitHub: the token lacks the scope {SCOPE}", "make a token as docs/tokens.md says")]
    missing = {scope: without for scope, without in USEFUL_SCOPES.items() if scope not in scopes}
    consequences = "; ".join(f"without the scope {scope} {without}" for scope, without in missing.items())
    return (
        [Finding(f"GitHub: {consequences}", "add that scope to the token if you need this", optional=True)]
        if consequences
        else []
    )


async def _label(connections: Connections, *, fix: bool) -> list[Finding]:
    """Check for the label that calls the bot; with `fix`, create it. Returns nothing for a job's own token."""
    missing: list[str] = []
    is_any_served = False
    try:
        async for served in _first_repositories(connections):
            is_any_served = True
            if await tasks.has_label(connections.poller(served.installation), served.at, LABEL):
                continue
            if fix:
                reached = await connections.reach_served(served)
                await tasks.make_label(reached.client, served.at, LABEL, LABEL_DESCRIPTION)
            else:
                missing.append(served.at.full_name)
    except Refused as error:
        return [Finding(f"GitHub: the label {LABEL}: {error.what}", "make it by hand", optional=True)]
    if not is_any_served:
        return []
    if missing:
        cure = f"plangate doctor --fix makes it, or: gh label create {LABEL} --repo {missing[0]}"
        names = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if missing[_SHOWN:] else "")
        return [Finding(f"GitHub: no label {LABEL} in {names}", cure, optional=True)]
    return [Finding(f"GitHub: the label {LABEL} is there")]


async def _repositories_requiring_signatures(connections: Connections) -> AsyncIterator[repository.Address]:
    """Yield the repositories that require signed commits, among the first that are served."""
    with suppress(Refused):  # a job's own token may not list repositories
        async for served in _first_repositories(connections):
            if "required_signatures" in await branch_rules(connections.poller(served.installation), served.at, BRANCH):
                yield served.at


async def _first_repositories(connections: Connections) -> AsyncIterator[ServedRepository]:
    count = 0
    async for served in connections.served_repositories(()):
        yield served
        count += 1
        if count == REPOSITORIES:
            return


def _signatures(settings: Settings, at: repository.Address) -> Finding:
    """Return the check of commit signing in a repository. Only an account can have a signing key; an App cannot.

    https://docs.github.com/en/authentication/managing-commit-signature-verification/about-commit-signature-verification
    """
    what = f"GitHub: {at.full_name} requires signed commits"
    if settings.github.as_app:
        return Finding(f"{what}, and an App has no signing key", _BYPASS)
    if settings.signing_key is None:
        return Finding(what, _SIGN)
    return Finding(f"{what}: they are signed")


def _webhook_secret(github: GitHubSettings) -> Finding:
    if github.webhook_secret:
        return Finding("webhook secret: set")
    cure = "set PLANGATE_WEBHOOK_SECRET to the webhook secret on GitHub: plangate serve does not start without it"
    return Finding("webhook secret: not set", cure)


# --- Database checks --------------------------------------------------------------------------------------------------
# The server has to be reachable and new enough, the database migrated, and open to the account.

OLDEST: Final = 13
"""The oldest server that is supported. No statement needs a newer one."""
_SHOWN_RIGHTS: Final = 3


async def check_database(settings: Settings) -> tuple[Finding, ...]:
    """Check the database of the settings. Returns nothing if none is set.

    Raises Misconfigured if this process cannot use it, and Transient if there is no connection.
    """
    if not settings.database:
        return ()
    inspection = await inspect(settings.database.reveal())
    return (_server(inspection), *_tables(inspection), *_durability(inspection))


def _server(inspection: Inspection) -> Finding:
    what = f"database: PostgreSQL {inspection.version}, database {inspection.name}, account {inspection.account}"
    return Finding(what, "" if inspection.version >= OLDEST else f"install PostgreSQL {OLDEST} or newer")


def _tables(inspection: Inspection) -> Iterator[Finding]:
    if inspection.denied:
        rights = ", ".join(inspection.denied[:_SHOWN_RIGHTS])
        more = f", and {len(inspection.denied) - _SHOWN_RIGHTS} more" if inspection.denied[_SHOWN_RIGHTS:] else ""
        cure = f"run plangate migrate as {inspection.account}, or GRANT it all privileges on all tables and sequences"
        yield Finding(f"database: the account {inspection.account} lacks {rights}{more}", cure)
        return
    if inspection.missing and not inspection.may_create:
        grant = f"GRANT CREATE ON SCHEMA {inspection.schema or 'public'} TO {inspection.account}"
        cure = f"as the owner of the database: {grant}"
        yield Finding(f"database: the account {inspection.account} may not create tables", cure)
    elif inspection.missing:
        yield Finding(f"database: lacks {', '.join(inspection.missing)}", "run plangate migrate")
    else:
        yield Finding("database: has the tables of this release, with all privileges")
    if inspection.unfinished:
        cure = "when the last process of the release before has ended, run plangate migrate --finish"
        yield Finding(f"database: {', '.join(inspection.unfinished)} waits", cure, optional=True)


def _durability(inspection: Inspection) -> Iterator[Finding]:
    if not inspection.syncs:
        what = "database: fsync is off, so that deliveries which were acknowledged are lost with its power"
        yield Finding(what, "set fsync = on in postgresql.conf", optional=True)

"""Checks of `plangate doctor --repo`: whether one repository is set up for the Action, as far as the token can see.

Each check says what it found, and how to fix it with the address of the page. A setting that the token may not see is
reported as such, and is never called good.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bot.clock import SystemClock
from bot.compose.checkup import BRANCH, LABEL_DESCRIPTION, Finding
from bot.compose.sweep import SWEEP
from bot.config.environment import configuration
from bot.config.settings import PATH, Settings
from bot.core.checks import NAMING, REFUSING
from bot.core.errors import Misconfigured
from bot.core.turn import Actor, Role
from bot.github import repository, tasks
from bot.github.client import GitHubClient
from bot.github.permissions import Roles
from bot.github.repository import Address, RepositoryProfile, workflow_state
from bot.github.responses import Forbidden, Missing
from bot.github.turns import LABEL
from bot.service.connections import Connections

WORKFLOWS: Final = ".github/workflows"
MAIN: Final = "plangate.yml"
FILES: Final = (f"{WORKFLOWS}/{MAIN}", f"{WORKFLOWS}/{SWEEP}", PATH)
_MINUTES: Final = "https://docs.github.com/en/billing/concepts/product-billing/github-actions"
_NAMING: Final = frozenset({NAMING, "commit_message_pattern", "commit_author_email_pattern", "committer_email_pattern"})
_READING: Final = frozenset({"metadata", "contents", "issues", "actions", "administration", "environments", "secrets"})
"""Permissions with which an App sees the settings that are checked here. Most Apps have a few of them."""
_ENVIRONMENT: Final = "plangate"
_PEOPLE: Final = "people in the configuration"
_KEY_NAME: Final = "ANTHROPIC_API_KEY"
_LABELS: Final = {
    tasks.OPEN_LABEL: "Plangate works on this thread, and reads what is said here at once",
    LABEL: LABEL_DESCRIPTION,
}


@dataclass(frozen=True, slots=True)
class WorkflowNeeds:
    """What the repository's workflow needs: the place of its key, and the kind of token that it uses."""

    key_place: str = "environment"
    """`environment` or `repository`."""
    own_token: bool = False
    """Whether the bot speaks with a token of its own instead of the job's."""
    pinned: bool = False
    """Whether the workflow names the action by the full id of a commit."""


@dataclass(slots=True)
class RepositoryCheckup:
    """Asks about one repository. Close the connections afterward."""

    at: Address
    web: str
    """Address of the repository's page."""
    client: GitHubClient
    connections: Connections
    profile: RepositoryProfile

    async def files(self) -> Mapping[str, str] | None:
        """Return the files that the bot needs, from the default branch: path -> text, "" for a missing file.

        None: this token may not read them.
        """
        branch = self.profile.default_branch
        try:
            contents = {name: await repository.file(self.client, self.at, name, branch) for name in FILES}
        except Forbidden:
            return None
        return {name: (text or b"").decode(errors="replace") for name, text in contents.items()}

    def hidden_files(self) -> Finding:
        branch = quote(self.profile.default_branch)
        return _hidden("the files of the workflows", f"{self.web}/tree/{branch}/{WORKFLOWS}")

    async def check(self, expected: WorkflowNeeds, *, fix: bool = False) -> list[Finding]:
        plan = await repository.plan(self.client, self.profile)
        return [
            self._repository(plan),
            self._check_minutes(plan),
            await self._visible("Actions", "settings/actions", self._actions(expected)),
            await self._visible("pull requests of Actions", "settings/actions", self._pulls(expected)),
            *await self._check_key(expected, plan),
            await self._visible("rules for branches", "rules", self._check_rules()),
            await self._visible("refs/plangate", "rules", self._check_rulesets()),
            await self._visible(_PEOPLE, f"blob/{self.profile.default_branch}/{PATH}", self._check_people()),
            *[await self._visible(f"label {name}", "labels", self._label(name, fix=fix)) for name in _LABELS],
            *[await self._check_workflow(name) for name in (MAIN, SWEEP)],
        ]

    async def close(self) -> None:
        """Revoke the tokens that were made for this."""
        await self.connections.close()

    def _repository(self, plan: str | None) -> Finding:
        profile = self.profile
        kind = "private" if profile.private else "public"
        what = f"repository: {self.at.full_name} ({kind}, plan of {profile.owner}: {plan or 'not visible'})"
        if profile.archived:
            return Finding(f"{what} is archived: nobody can write there", f"unarchive it: {self.web}/settings")
        if not profile.has_issues:
            return Finding(f"{what} has no issues", f"switch them on, or ask on pull requests: {self.web}/settings")
        return Finding(what)

    def _check_minutes(self, plan: str | None) -> Finding:
        """Report what jobs cost. In public repositories they cost nothing."""
        if not self.profile.private:
            return Finding("minutes: jobs cost nothing in a public repository")
        if plan == "free":
            what = "minutes: 2,000 a month for all private repositories of the account, then every workflow stops"
            return Finding(
                what, f"each job bills at least one; set a budget if that is too few: {_MINUTES}", optional=True
            )
        return Finding(
            "minutes: each job on a runner of GitHub's bills at least one (docs/api-cost.md tells how many start)"
        )

    async def _actions(self, expected: WorkflowNeeds) -> Finding:
        """Return whether the repository's settings let GitHub Actions run the workflows."""
        policy = await repository.actions_policy(self.client, self.at)
        where = f"{self.web}/settings/actions"
        if not policy.enabled:
            return Finding("Actions: disabled", f"allow them: {where}")
        if policy.must_be_pinned and not expected.pinned:
            what = "Actions: must be named by the full id of a commit, and the workflow names a version"
            return Finding(what, f"run plangate init --pin ({where})")
        if policy.allowed != "all":
            what = f"Actions: only some are allowed ({policy.allowed})"
            return Finding(what, f"see that plangate/plangate@* is one of them: {where}", optional=True)
        return Finding("Actions: allowed")

    async def _pulls(self, expected: WorkflowNeeds) -> Finding:
        what = "pull requests of Actions"
        if expected.own_token:
            return Finding(f"{what}: the bot has a token of its own and does not need them")
        if await repository.may_actions_open_pulls(self.client, self.at):
            return Finding(f"{what}: allowed")
        name = '"Allow GitHub Actions to create and approve pull requests"'
        return Finding(f"{what}: not allowed", f"tick {name}: {self.web}/settings/actions")

    async def _check_key(self, expected: WorkflowNeeds, plan: str | None) -> list[Finding]:
        """Check that the secret with the model's key exists. GitHub shows names of secrets, never their values."""
        if expected.key_place == "repository":
            page, names = "settings/secrets/actions", repository.secrets_of_repository(self.client, self.at)
            return [await self._visible(f"secret {_KEY_NAME}", page, self._secret(names, page))]
        name, page = f"environment {_ENVIRONMENT}", "settings/environments"
        where = f"{self.web}/{page}"
        try:
            environment = await repository.environment_settings(self.client, self.at, _ENVIRONMENT)
        except Forbidden:
            return [_hidden(name, where)]
        if environment is None and self.profile.private and plan == "free":
            cure = "run plangate init --secret repository, or make the repository public, or change the plan"
            return [Finding(f"{name}: private repositories have none on the Free plan", cure)]
        if environment is None and self.profile.private and not self.profile.may_administer:
            return [_hidden(f"{name}: not there, or", where)]
        if environment is None:
            return [Finding(f"{name}: not there", f"make it, and put {_KEY_NAME} into it: {where}")]
        protection = Finding(f"{name}: there, for some branches only")
        if environment.waits:
            what = f"{name}: holds every job back until a person or a timer lets it in"
            protection = Finding(what, f"remove that: {where}")
        elif not environment.limited:
            cure = f"limit it to the default branch: {where}"
            protection = Finding(f"{name}: whoever can push a branch can read its secrets", cure, optional=True)
        names = repository.secrets_of_environment(self.client, self.at, _ENVIRONMENT)
        return [protection, await self._visible("its secrets", page, self._secret(names, page))]

    async def _secret(self, names: Awaitable[frozenset[str]], page: str) -> Finding:
        if _KEY_NAME in await names:
            return Finding(f"secret {_KEY_NAME}: there")
        return Finding(f"secret {_KEY_NAME}: not there", f"add it: {self.web}/{page}")

    async def _check_rules(self) -> Finding:
        rules = await repository.branch_rules(self.client, self.at, BRANCH)
        page, what = f"{self.web}/rules", "rules for branches plangate/**"
        cure = f"leave plangate/** out of them, or let the bot bypass them: {page}"
        if refused := [refusal for rule, refusal in REFUSING.items() if rule in rules]:
            return Finding(f"{what}: refuse {', '.join(refused)}", cure)
        if rules & _NAMING:
            return Finding(f"{what}: {', '.join(sorted(rules & _NAMING))}", f"see that they fit: {page}", optional=True)
        return Finding(f"{what}: none that refuses the bot's pushes")

    async def _check_rulesets(self) -> Finding:
        """Check for rules that may refuse pushes of refs/plangate. Rules for branches and tags do not apply to it.

        https://docs.github.com/en/repositories/configuring-branches-and-merges-in-your-repository/managing-rulesets/about-rulesets#push-rulesets
        """
        every = await repository.rulesets(self.client, self.at)
        pushes = [f"{ruleset.name} (of {ruleset.source})" for ruleset in every if ruleset.target == "push"]
        if not pushes:
            return Finding("refs/plangate: no ruleset for pushes")
        cure = f"see that they let encrypted files in; plangate doctor --live tries it: {self.web}/rules"
        return Finding(f"refs/plangate: rulesets for all pushes: {', '.join(pushes)}", cure, optional=True)

    async def _check_people(self) -> Finding:
        """Check that each login in the configuration has an account, and a role in this repository.

        Anybody can register a login that nobody has. In a public repository everybody may read.
        """
        text = await repository.file(self.client, self.at, PATH, self.profile.default_branch) or b""
        keys, roles = configuration(text.decode(errors="replace"), PATH), Roles(self.client, self.at)
        problems = list[str]()
        people = dict.fromkeys((*keys.ask.users, *keys.approve.users))
        for login in (person for person in people if isinstance(person, str)):
            account = await repository.account_id(self.client, login)
            if account is None:
                problems.append(f"nobody has the login {login}")
            elif await roles.of(Actor(account, login)) in {Role.NONE, Role.NONE if self.profile.private else Role.READ}:
                problems.append(f"{login} has no role here")
        where = f"{self.web}/blob/{self.profile.default_branch}/{PATH}"
        cure = f"take the names out, or list numeric ids, because anybody can register a free login: {where}"
        return Finding(f"{_PEOPLE}: {', '.join(problems)}", cure, optional=True) if problems else Finding(_PEOPLE)

    async def _label(self, name: str, *, fix: bool) -> Finding:
        if await tasks.has_label(self.client, self.at, name):
            return Finding(f"label {name}: there")
        if fix:
            await tasks.make_label(self.client, self.at, name, _LABELS[name])
            return Finding(f"label {name}: made")
        why = "the bot makes it with its first thread" if name == tasks.OPEN_LABEL else "needed to call it by label"
        cure = f"plangate doctor --fix --repo {self.at.full_name} makes it: {self.web}/labels"
        return Finding(f"label {name}: not there; {why}", cure, optional=True)

    async def _check_workflow(self, file: str) -> Finding:
        """Check that GitHub knows a workflow and starts it. The bot itself switches the sweep off."""
        page = f"{self.web}/actions/workflows/{file}"
        try:
            state = await workflow_state(self.client, self.at, file)
        except Missing:
            cure = f"run plangate init in the project, and push its files to {self.profile.default_branch}"
            return Finding(f"workflow {file}: GitHub knows none", cure)
        except Forbidden:
            return _hidden(f"workflow {file}", page)
        if state == "active" or (file == SWEEP and state in {"disabled_manually", "disabled_inactivity"}):
            waits = "nothing waits" if state != "active" else "active"
            return Finding(f"workflow {file}: {waits}")
        return Finding(f"workflow {file}: {state}", f"enable it: {page}")

    async def _visible(self, what: str, page: str, check: Awaitable[Finding]) -> Finding:
        """Return what a check finds, or that this token cannot see it."""
        try:
            return await check
        except (Forbidden, Missing):
            return _hidden(what, f"{self.web}/{page}")
        except Misconfigured as error:
            return Finding(f"{what}: {error}", f"correct it: {self.web}/{page}")


async def open_checkup(settings: Settings, name: str) -> RepositoryCheckup:
    """Return the checkup of the repository OWNER/REPO. Raises Misconfigured, Refused, and Transient."""
    at = Address.parse(name, where="--repo")
    if not (settings.github.as_app or settings.github.token):
        fix = "set it to your own token: GH_TOKEN=$(gh auth token)"
        raise Misconfigured("no credentials for GitHub", where="GH_TOKEN", fix=fix)
    connections = Connections(settings, SystemClock())
    web = f"{settings.github.server_url}/{at.full_name}"
    try:
        client = await _reader(connections, at) if settings.github.as_app else connections.poller(None)
        profile = await repository.profile(client, at)
    except Missing as error:
        fix = "check its name, or use a token that may read it"
        raise Misconfigured("GitHub shows this token no such repository", where=name, fix=fix) from error
    return RepositoryCheckup(at, web, client, connections, profile)


@dataclass(frozen=True, slots=True)
class RepositoryConstraints:
    """What a repository's owner and settings require of the workflows. None: not visible to this token."""

    has_environments: bool | None
    must_be_pinned: bool | None


async def repository_constraints(settings: Settings, name: str) -> RepositoryConstraints:
    """Return the constraints of the repository OWNER/REPO. Raises Misconfigured, Refused, and Transient.

    https://docs.github.com/en/actions/how-tos/deploy/configure-and-manage-deployments/manage-environments
    """
    checkup = await open_checkup(settings, name)
    try:
        plan = await repository.plan(checkup.client, checkup.profile)
        has = True if not checkup.profile.private else None if plan is None else plan != "free"
        try:
            policy = await repository.actions_policy(checkup.client, checkup.at)
        except (Forbidden, Missing):
            return RepositoryConstraints(has, None)
        return RepositoryConstraints(has, policy.must_be_pinned)
    finally:
        await checkup.close()


async def _reader(connections: Connections, at: Address) -> GitHubClient:
    """Return a client for one repository, with only the App permissions that are needed here."""
    installation = await repository.installation_on(connections.app(), at)
    finder = connections.client_with({"metadata": "read"}, installation.id)
    number = (await repository.repository_by_name(finder, at)).id
    permissions = {name: level for name, level in installation.permissions.items() if name in _READING}
    return connections.client_with(permissions, installation.id, number)


def _hidden(what: str, where: str) -> Finding:
    return Finding(f"{what}: this token cannot see it", f"check it there, or use another token: {where}", optional=True)

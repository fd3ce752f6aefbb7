"""What `plangate doctor` learns of GitHub: who the bot is there, and what it may do against what it needs."""

from dataclasses import dataclass
from typing import Final

from bot.clock import SystemClock
from bot.compose.connections import WORKING, Connections
from bot.config import GitHubSettings, Settings
from bot.core.actor import ActorKind
from bot.github import reach, repository
from bot.github.door import Door

_LEVELS: Final = ("none", "read", "write", "admin")
_OWN_ACCOUNT: Final = (
    "make an account for the bot alone and set PLANGATE_GITHUB_TOKEN to a token of it: the bot never hears what its "
    "own account says, so this person could neither ask nor approve"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that was looked at; the cure is empty where it is good."""

    what: str
    cure: str = ""


async def check_github(settings: Settings) -> tuple[Checked, ...]:
    """Look at everything that GitHub can tell of the credentials; nothing where none are set.

    Raises Refused or Misconfigured where GitHub does not take them, Transient where it cannot be asked.
    """
    github = settings.github
    if github.app_id and not github.private_key:
        return (Checked("GitHub: an App without its key", "set PLANGATE_PRIVATE_KEY, or PLANGATE_PRIVATE_KEY_PATH"),)
    if not (github.as_app or github.token):
        return ()
    connections = Connections(settings, SystemClock())
    found = await (_app(connections.app()) if github.as_app else _account(connections.poller(None)))
    return (*found, _webhook_secret(github))


def lacking(granted: dict[str, str]) -> tuple[str, ...]:
    """List the permissions that work needs and that were not granted, such as ``issues: write``."""
    low = (name for name, level in WORKING.items() if _level(granted.get(name, "none")) < _level(level))
    return tuple(f"{name}: {WORKING[name]}" for name in low)


def _level(name: str) -> int:
    return _LEVELS.index(name) if name in _LEVELS else 0


async def _app(app: Door) -> list[Checked]:
    """Look at an App, and at each of its installations.

    https://docs.github.com/en/rest/apps/apps#get-the-authenticated-app
    """
    facts = await app.get("/app")
    found = [Checked(f"GitHub: the App {facts['slug']}")]
    found += [_installation(each) async for each in reach.granted(app)]
    if len(found) == 1:
        found.append(Checked("GitHub: the App is installed nowhere", f"install it: {facts['html_url']}"))
    return found


def _installation(one: reach.Installation) -> Checked:
    if one.suspended:
        return Checked(f"GitHub: on {one.account} the App is suspended", f"unsuspend it: {one.url}")
    if missing := lacking(one.permissions):
        cure = f"give the App these permissions, then accept them: {one.url}"
        return Checked(f"GitHub: on {one.account} the App lacks {', '.join(missing)}", cure)
    return Checked(f"GitHub: on {one.account} the App may do what it needs")


async def _account(door: Door) -> list[Checked]:
    """Look at the account of a token, and at what it can push to.

    GitHub does not tell a machine account from a person's; but only a person's own account owns what is worked on.
    """
    bot = await repository.token_bot(door)
    name = Checked(f"GitHub: the account {bot.login}")
    if bot.kind is ActorKind.BOT:  # a job's own token, which may not list repositories
        return [name]
    pushable = [each.address async for each in reach.owned(door)]
    own = next((at for at in pushable if at.owner.casefold() == bot.login.casefold()), None)
    if own is not None:
        what = f"GitHub: {bot.login} is a person's own account: it owns {own.owner}/{own.name}"
        return [Checked(what, _OWN_ACCOUNT)]
    if not pushable:
        return [name, Checked(f"GitHub: {bot.login} can push nowhere", "give it the role write in a repository")]
    return [name, Checked(f"GitHub: {bot.login} can push to {len(pushable)} repositories")]


def _webhook_secret(github: GitHubSettings) -> Checked:
    if github.webhook_secret:
        return Checked("webhook secret: set")
    cure = "set PLANGATE_WEBHOOK_SECRET as at GitHub: without it plangate serve does not start"
    return Checked("webhook secret: not set", cure)

"""The effects of receipts on GitHub: the ref of a commit's receipt, its check run, and the ref of keys (RC5, RC6)."""

from functools import partial
from typing import Final

from bot.core.names import CommitId, RepositoryId
from bot.core.receipt import KEYS_REF, receipt_ref
from bot.github.pulls import NAME, ApprovalChecks
from bot.github.tokens import AppTokens
from bot.receipts.envelope import ReceiptKey, is_receipt_of, sign_statement, with_current_key_file
from bot.store.receipt_refs import Issuer, ReceiptRefs
from bot.store.thread_refs import Remote, ThreadRefs
from bot.workspace.remote import RemoteRepository
from tests.github.conftest import HOME, Ground
from tests.github.effect_cases import Case, Effect

_COMMIT: Final = CommitId("c" * 40)
_KEY: Final = ReceiptKey.of(b"k" * 32)
_PUSH: Final = "POST /*.git/git-receive-pack"
_SITE: Final = "bot/store/plumbing.py:_push:push"


async def _receipts(ground: Ground) -> ReceiptRefs:
    token = await ground.client.credentials.token()
    source = RemoteRepository(ground.github.clone_url(HOME), lambda: token)
    remote = Remote(source.location, environment=source.environment)
    refs = ThreadRefs(remote, ground.github.world.folder / "mine", ground.clock)
    issuer = Issuer(
        partial(sign_statement, key=_KEY),
        partial(is_receipt_of, key=_KEY.public),
        partial(with_current_key_file, current=_KEY.public),
    )
    return ReceiptRefs(refs, issuer, ground.clock, ground.github.world.folder / "receipts")


async def a_receipt(ground: Ground, _: int) -> Case:
    """Issue a receipt; a process that died has it issued again."""
    receipts = await _receipts(ground)

    async def act() -> None:
        await receipts.issue({"subject": 1}, _COMMIT)

    return Case(act, lambda: _commits(ground, receipt_ref(_COMMIT)))


async def a_list_of_keys(ground: Ground, _: int) -> Case:
    """Publish the key with a receipt; where that failed, the next receipt does."""
    receipts, made = await _receipts(ground), iter(range(10))

    async def act() -> None:
        await receipts.issue({"subject": 1}, CommitId(f"{next(made):040x}"))

    return Case(act, lambda: _commits(ground, KEYS_REF))


async def a_check_run(ground: Ground, _: int) -> Case:
    """Have the check run on a commit; a process that died has it made again."""
    (installation,) = ground.github.world.installations
    may = {"checks": "write", "contents": "read"}
    ground.client.credentials = AppTokens(ground.app, installation, RepositoryId(ground.repository), may)
    checks, commit = ApprovalChecks(ground.client, ground.address), ground.head
    statement = {"predicate": _predicate()}

    def made() -> int:
        return sum(run.name == NAME for run in ground.github.world.check_runs.values())

    return Case(lambda: checks.ensure(statement, commit), made)


def _predicate() -> dict[str, object]:
    return {
        "plan": {"digest": "d" * 64, "version": 2},
        "repository": {"host": "github.com", "name": HOME},
        "thread": 1,
        "approvals": [{"by": [{"login": "mia"}, {"login": "mia"}]}],
    }


def _commits(ground: Ground, ref: str) -> int:
    bare = ground.github.world.bare(ground.github.world.repository(HOME))
    return len(bare.text("rev-list", ref).split()) if ref in bare.refs() else 0


RECEIPT_EFFECTS: Final = {
    "receipt": Effect(_PUSH, _SITE, a_receipt, "refs/plangate/receipts/"),
    "check run": Effect("POST */check-runs", "bot/github/pulls.py:ensure:post_once", a_check_run, once=True),
    "keys": Effect(_PUSH, _SITE, a_list_of_keys, KEYS_REF),
}

"""Publishing onto a branch of ours that is there: by compare-and-swap, and never over what others did."""

from dataclasses import replace
from pathlib import Path

import pytest

from bot.core.errors import Conflict, Refused
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, approved, order, publish, write


@pytest.mark.req("G3")
async def test_follow_up(workspace: GitWorkspace, repository: Repository) -> None:
    """Work that was begun on the head of a branch of ours goes on top of it; again, it changes nothing."""
    first = await publish(workspace, repository, write(new="x"))
    checkout = await workspace.checkout("again", first.commit)
    (Path(checkout.path) / "more").write_text("y")
    onto = replace(order(), expected=first.commit)
    second = await workspace.publish(approved(first.commit), checkout, onto)
    assert second == await workspace.publish(approved(first.commit), checkout, onto)
    assert repository.git("log", "--format=%H", "-2", order().branch).split() == [second.commit, first.commit]


@pytest.mark.req("G3")
async def test_follow_up_overtaken(workspace: GitWorkspace, repository: Repository) -> None:
    """A branch that has moved on since the work began, or is gone, is a Conflict; nothing is overwritten or made."""
    first = await publish(workspace, repository, write(new="x"))
    checkout = await workspace.checkout("again", first.commit)
    (Path(checkout.path) / "more").write_text("y")
    onto = replace(order(), expected=first.commit)
    repository.git("branch", "-f", order().branch, "main")
    with pytest.raises(Conflict):
        await workspace.publish(approved(first.commit), checkout, onto)
    assert repository.git("rev-parse", order().branch) == repository.head
    repository.git("branch", "-D", order().branch)
    with pytest.raises(Conflict):
        await workspace.publish(approved(first.commit), checkout, onto)
    assert repository.git("branch", "--format=%(refname:short)") == "main"


@pytest.mark.req("G3")
async def test_follow_up_from_elsewhere(workspace: GitWorkspace, repository: Repository) -> None:
    """Work that was not begun on the branch's head is refused: pushing it would throw away what is there."""
    first = await publish(workspace, repository, write(new="x"))
    checkout = await workspace.checkout("main", repository.head)
    with pytest.raises(Refused, match="did not start from the branch's head"):
        await workspace.publish(approved(checkout.base), checkout, replace(order(), expected=first.commit))

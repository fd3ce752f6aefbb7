"""The experiments that need no runner: made with the token at hand, and by a person."""

from typing import Final

from bot.compose.live.laboratory import NAME, Laboratory, NotRun
from bot.core.errors import Refused
from bot.github.live_repository import Edits
from bot.github.repository_settings import workflow_state
from bot.github.workflows import disable, enable

PUSHES: Final = 20
MINUTE: Final = 60.0
BOX: Final = "- [ ] Tick this box"
FILE: Final = f"{NAME}.txt"
PULL: Final = f"{NAME}: a pull request"
SWITCH: Final = f"{NAME}-switch.yml"
REF: Final = "refs/plangate/live"


async def push_refs(lab: Laboratory) -> str:
    """Push a branch and a ref while a ruleset protects every branch; fetch the ref; push it as if it were not there."""
    branch = f"refs/heads/{NAME}-push"
    for ref in (branch, REF):
        remove_later(lab, ref)
    await protect_branches(lab)
    await lab.git("commit", "-q", "--allow-empty", "-m", "Try a ref", check=True)
    seen = ["branch pushed" if await lab.push(f"HEAD:{branch}") else "branch refused"]
    seen.append("ref pushed" if await lab.push(f"HEAD:{REF}") else "ref refused")
    fetched = await lab.git("fetch", "-q", lab.remote.url, "+refs/plangate/*:refs/seen/*")
    seen.append("fetched" if fetched and await lab.git("rev-parse", "--verify", "refs/seen/live") else "not fetched")
    await lab.git("commit", "-q", "--allow-empty", "-m", "Come late", check=True)
    late = await lab.push(f"HEAD:{REF}", lease=REF)
    seen.append("late push accepted" if late else "late push refused")
    return ", ".join(seen)


def remove_later(lab: Laboratory, ref: str) -> None:
    """Note that a ref is to be removed."""
    lab.undo_with(ref, lambda: lab.repository.remove_ref(ref))


async def protect_branches(lab: Laboratory) -> None:
    """Make a ruleset that protects every branch. Raises NotRun where the owner's plan has none."""
    lab.undo_with(f"ruleset {NAME}", lambda: lab.repository.remove_rulesets(NAME))
    try:
        await lab.repository.add_ruleset(NAME)
    except Refused as error:
        raise NotRun(f"no ruleset could be made: {error.what}") from error


async def watch_tick(lab: Laboratory) -> str:
    """Ask a person to tick a box with another account, and read who edited the comment."""
    posted = f"{BOX}\n\n<!-- {NAME} -->"
    made = await lab.repository.add_comment(lab.issue, posted)
    lab.tell(f"Please tick the box in {made.url}, with another account than the token's if you can.")
    lab.tell(f"The experiment waits {lab.patience.person / 60:.0f} minutes. Press Enter to skip it.")

    async def look() -> str | None:
        edits = await lab.repository.edits(made.node)
        return None if edits.text == posted else tick_words(edits, made.author.id, posted)

    return await lab.wait(lab.patience.person, look, "a ticked box")


def tick_words(edits: Edits, author: int, posted: str) -> str:
    """Return what the edits of a ticked comment show, in the words of the table."""
    who = "nobody" if not edits.editor.id else "the token's account" if edits.editor.id == author else "the person"
    times = [at for at, _ in edits.listed]
    order = "newest edit first" if times == sorted(times, reverse=True) else "newest edit last"
    whole = {posted, edits.text} == {text for _, text in edits.listed}
    return f"edited by {who}, {order}, with {'the whole text' if whole else 'other texts'}"


async def write_words(lab: Laboratory) -> str:
    """Hide a comment, and reply in a review."""
    made = await lab.repository.add_comment(lab.issue, "To be hidden")
    hidden = await lab.repository.minimize(made.node)
    pull = await open_pull(lab)
    remark = await lab.repository.review(pull, FILE, 1)
    try:
        await lab.repository.reply(pull, remark)
        reply = "reply made"
    except Refused:
        reply = "reply refused"
    return f"comment {'minimized' if hidden else 'not minimized'}, {reply}"


async def open_pull(lab: Laboratory) -> int:
    """Open a pull request that adds one file, from what is on the default branch now."""
    branch = lab.profile.default_branch
    heads = await lab.repository.refs(f"heads/{branch}")
    remove_later(lab, f"refs/heads/{NAME}")
    await lab.repository.add_branch(NAME, heads[f"refs/heads/{branch}"])
    await lab.repository.write_file(FILE, "One line.\n", NAME)
    lab.undo_with(f"the pull request {PULL}", lambda: lab.repository.close_threads(PULL))
    return await lab.repository.open_pull(PULL, NAME, branch)


async def switch_workflow(lab: Laboratory) -> str:
    """Disable a workflow, and enable it again."""
    place = lab.repository.client, lab.repository.at
    await disable(*place, SWITCH)
    disabled = await workflow_state(*place, SWITCH)
    await enable(*place, SWITCH)
    return f"{disabled}, then {await workflow_state(*place, SWITCH)}"


async def push_often(lab: Laboratory) -> str:
    """Push twenty commits to one ref within a minute."""
    remove_later(lab, REF)
    accepted, began = 0, lab.clock.monotonic()
    for number in range(PUSHES):
        await lab.git("commit", "-q", "--allow-empty", "-m", f"Push {number}", check=True)
        accepted += await lab.push(f"+HEAD:{REF}")
    seconds = lab.clock.monotonic() - began
    slow = f" in {seconds:.0f} seconds" if seconds > MINUTE else ""
    return f"{accepted} of {PUSHES} accepted{slow}"

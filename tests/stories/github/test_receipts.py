"""Receipts of whole stories: made once, equal to what GitHub's own records say, also when a process dies (RC1, RC5)."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.compose.github import read_audit
from bot.compose.receipt_check import CheckedCommit, ReceiptRepository
from bot.config.settings import Secret
from bot.core.errors import Transient
from bot.core.gate import Stage
from bot.core.receipt import KEYS_FILE, KEYS_REF, RECEIPT_FILE, receipt_ref
from bot.core.secrets.redaction import Redactor
from bot.receipts.envelope import parse_envelope
from bot.receipts.verdicts import exit_code
from bot.service.connections import Connections
from bot.service.overview.transcript_views import PartKind, StoredTranscripts, transcript_page
from bot.testing.github.faults import Fault, Plan
from bot.testing.sample import NAMED
from tests.stories.github.ground import FIXED, HOME, Model, Story
from tests.stories.github.outcome import receipt_is_remade, receipt_is_true

LATER = datetime.now(UTC) + timedelta(days=3650)


def clone(story: Story, folder: Path) -> Path:
    """Return a clone with every receipt, as an auditor makes it, and the published keys beside it."""
    path = folder / "clone"
    url = f"{story.github.server_url}/{HOME}.git"
    refs = ("+refs/heads/*:refs/remotes/origin/*", "+refs/plangate/*:refs/plangate/*")
    subprocess.run(["git", "clone", "-q", url, str(path)], check=True, capture_output=True)
    subprocess.run(["git", "-C", str(path), "fetch", "-q", "origin", *refs], check=True, capture_output=True)
    shown = subprocess.run(["git", "-C", str(path), "show", f"{KEYS_REF}:{KEYS_FILE}"], check=True, capture_output=True)
    (folder / KEYS_FILE).write_bytes(shown.stdout)
    return path


def check(story: Story, folder: Path) -> tuple[CheckedCommit, Any]:
    """Return the verdicts on the head of the newest pull request, and the predicate of its receipt."""
    (branch,) = story.branches()
    repository = ReceiptRepository.at(clone(story, folder), keys=folder / KEYS_FILE, repository=f"127.0.0.1/{HOME}")
    checked = repository.check_commit(f"origin/{branch}", None, LATER)
    return checked, parse_envelope(receipt(story, checked.commit)).statement["predicate"]


def receipt(story: Story, commit: str) -> bytes:
    return story.world.bare(story.world.repository(HOME)).run("show", f"{receipt_ref(commit)}:{RECEIPT_FILE}")


async def wait_for_approval(story: Story) -> None:
    """Let somebody ask, and check twice: nothing begins before somebody approves."""
    await story.planned()
    await story.rests()
    assert story.nothing_done()
    assert story.model.worked == 0


async def check_pull_request(story: Story, how: str) -> None:
    """Let the bot see the one approval, and check all that it makes of it."""
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (pull,) = story.pulls()
    (branch,) = story.branches()
    assert pull.pull is not None
    assert (pull.title, pull.pull.head_ref) == (NAMED, branch)
    assert "total >= FREE_FROM" in story.file(branch)
    people = story.world.bare(story.world.repository(HOME)).text("log", "-1", "--format=%ae %ce%n%(trailers)", branch)
    address, will = f"{story.bot}+plangate[bot]@users.noreply.127.0.0.1", story.world.user("will")
    assert people.split("\n")[0] == f"{address} {address}"
    assert f"Co-authored-by: will <{will.id}+will@users.noreply.127.0.0.1>" in people
    assert "- Requested by `will`.\n- Approved by `maya` as plan 1 (" in pull.text.body
    assert f" UTC, {how}.\n- Model: `claude-opus-5-5`. Cost: $" in pull.text.body
    assert pull.text.body.rstrip().endswith("Closes #1")
    assert story.said("tell") == [f"Pull request #{pull.number} is ready for review."]
    receipt_is_true(story, pull)
    assert (len(story.plans()), len(story.said("progress")), len(story.said("waits"))) == (1, 1, 0)


def check_run_is_there(story: Story, commit: str) -> None:
    """Check the one check run, which is on this commit."""
    (run,) = story.world.check_runs.values()
    assert (run.name, run.conclusion, run.external_id) == ("Plan approved", "success", story.digest)
    assert run.head_sha == commit
    assert run.summary == f"Approved by `maya`. The signed receipt is in `{receipt_ref(commit)}`."


async def transcripts_are_readable(story: Story, folder: Path) -> None:
    """Check that the planner's session is listed as the dashboard reads it, with its plan, and its cost of the journal:
    on this machine, and on one that never worked."""
    address, here = story.address(), StoredTranscripts(story.host.connections)
    elsewhere = Connections(replace(story.host.settings, data_dir=folder), story.clock)
    try:
        for source in (here, StoredTranscripts(elsewhere)):
            (session,) = await source.transcripts(address)
            page = transcript_page(session, await source.transcript(address, session), 1, Redactor())
            calls = [part.call for step in page.steps for part in step.parts if part.kind is PartKind.CALL]
            assert calls[-1] is not None
            assert calls[-1].tool == "exit_plan_mode"
            assert page.answers == len(page.steps) - 1 > 0
            assert round(page.cost_usd, 9) == round(story.records[1].costs.total_usd or 0, 9)
    finally:
        await elsewhere.close()


@pytest.mark.req("RC1", "RC3", "RC6", "PR1", "PR2")
async def test_a_reaction_approves_and_a_receipt_says_so(story: Story, tmp_path: Path) -> None:
    """Its receipt passes every check offline but those that say what the project lacks, and says what GitHub itself
    says. A check run is on the pushed commit, once. The planner's session is read here and on another machine."""
    await wait_for_approval(story)
    await transcripts_are_readable(story, tmp_path / "elsewhere")
    plan = story.plan
    story.reacts("maya", "+1")
    await check_pull_request(story, "by reaction")
    checked, said = check(story, tmp_path)
    check_run_is_there(story, checked.commit)
    failing = [(verdict.check, verdict.objections) for verdict in checked.verdicts if not verdict.passes]
    assert failing == [("completeness", ("No check was configured, so nothing was verified.",))]
    (reaction,) = [each for each in story.world.reactions_to(plan.node_id) if each.user != story.bot]
    (approval,) = said["approvals"]
    (person,) = approval["by"]
    user = story.world.user("maya")
    assert (person["actor_id"], person["login"], person["role"]) == (user.id, "maya", "maintain")
    assert person["way"] == "reaction"
    assert datetime.fromisoformat(person["at"]) == reaction.created_at.replace(microsecond=0)
    assert [each["actor_id"] for each in said["requests"]] == [story.world.user("will").id]
    assert (said["plan"]["digest"], said["thread"], said["repository"]["name"]) == (story.digest, 1, HOME)
    assert said["policy"]["approver_is_not_requester"] is True
    entries = await story.entries()
    anchor = entries[said["journal"]["position"] - 1]
    assert (anchor.kind, anchor.chain_hash) == ("executed", said["journal"]["hash"])
    (pull,) = story.pulls()
    assert f"Signed receipt: `{receipt_ref(checked.commit)}`" in pull.text.body
    bare = story.world.bare(story.world.repository(HOME))
    trailers = bare.text("log", "-1", "--format=%(trailers:only)", checked.commit).splitlines()
    assert {line.partition(":")[0] for line in trailers} == {"Plangate-Plan", "Plangate-Approved-By", "Co-authored-by"}
    copy = story.host.settings.data_dir / "receipts" / f"{checked.commit}.json"
    assert copy.read_bytes() == receipt(story, checked.commit)


@pytest.mark.long
@pytest.mark.req("RC5", "E3")
@pytest.mark.parametrize("done", (True, False), ids=("after", "before"))
async def test_the_check_after_a_death_at_the_receipt_has_the_same_one_once(
    story: Story, tmp_path: Path, done: bool
) -> None:
    await story.approved()
    push = "POST /*.git/git-receive-pack"
    story.github.faults.add(Plan(push, Fault("reset", done=done), 99, containing="refs/plangate/receipts/"))
    with pytest.raises(Transient):
        await story.rests(1)
    assert (len(story.branches()), story.pulls()) == (1, [])
    story.github.faults.clear()
    story.says("will", "@plangate status")
    assert (await story.persists()).stage is Stage.IN_REVIEW
    checked, said = check(story, tmp_path)
    assert exit_code(checked.verdicts) in {0, 26}
    entries = await story.entries()
    assert entries[said["journal"]["position"] - 1].kind == "executed"
    assert len(story.pulls()) == 1
    bare = story.world.bare(story.world.repository(HOME))
    assert [ref for ref in bare.refs() if "/receipts/" in ref] == [receipt_ref(checked.commit)]
    receipt_is_remade(story, checked.commit, entries)


@pytest.mark.long
@pytest.mark.req("RC6")
async def test_without_the_right_there_is_no_check_run_and_all_else_is_as_ever(story: Story) -> None:
    app = story.github.app
    less = {**app.permissions, "checks": "read"}
    story.world.apps[app.id] = replace(app, permissions=less)
    story.world.installations[story.installation.id] = replace(story.installation, permissions=less)
    await story.approved()
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    assert list(story.world.check_runs.values()) == []
    assert len(story.pulls()) == 1


@pytest.mark.long
@pytest.mark.req("RC1")
async def test_a_pull_request_without_a_receipt_says_why(story: Story) -> None:
    await story.approved()
    bare = story.world.bare(story.world.repository(HOME))
    hook = bare.folder / "hooks" / "update"
    hook.parent.mkdir()
    hook.write_text('#!/bin/sh\ncase "$1" in refs/plangate/receipts/*) exit 1 ;; esac\n')
    hook.chmod(0o755)
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (pull,) = story.pulls()
    assert "There is no receipt: " in pull.text.body


@pytest.mark.long
@pytest.mark.req("RC1", "RC5")
async def test_the_receipt_of_an_amendment_says_what_github_says(story: Story, model: Model) -> None:
    story.configure(f"paths:\n  classes:\n    ownership: ['{FIXED}']\n")
    model.scope = ("**",)
    await story.planned()
    assert f"- Path classes: `ownership: {FIXED}`" in story.said("plan")[0]
    story.reacts("rita", "+1")
    story.reacts("maya", "+1")
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    story.reacts("maya", "+1")
    story.reacts("will", "+1")
    assert f"- `{FIXED}`" in story.said("plan")[1]
    assert (await story.rests(1)).stage is Stage.AWAITING_APPROVAL
    assert story.nothing_done()
    story.reacts("ada", "+1")
    assert (await story.rests(1)).stage is Stage.IN_REVIEW
    (pull,), (commit,) = story.pulls(), story.branches().values()
    receipt_is_true(story, pull)
    receipt_is_remade(story, commit, await story.entries())


@pytest.mark.long
@pytest.mark.req("RC8")
async def test_an_audit_lists_what_happened_with_the_cost_that_the_thread_tells(story: Story) -> None:
    await story.approved()
    record = await story.rests(1)
    export = await read_audit(story.host.settings, HOME, datetime(2020, 1, 1, tzinfo=UTC))
    rows = export.rows
    assert export.unreadable == []
    assert [row.event for row in rows] == ["requested", "planned", "approved", "executed", "pushed"]
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(record.costs.total_usd)
    assert rows[-1].commit in story.branches().values()
    other = replace(story.host.settings, state_key=Secret("another-key-" * 4))
    lacking = await read_audit(other, HOME, datetime(2020, 1, 1, tzinfo=UTC))
    assert (lacking.rows, lacking.unreadable) == ([], [1])

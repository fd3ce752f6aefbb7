"""What the bot says on a thread, exactly once, and what it hears."""

import asyncio
import itertools
from contextlib import suppress
from dataclasses import replace

import pytest

from bot.core import marker
from bot.core.approval import Reason, Verdict, VerdictOutcome, VerdictReason
from bot.core.errors import Conflict, Transient
from bot.core.turn import Acknowledgment, Actor, Role
from bot.github.activity import GONE, fingerprints
from bot.ports import Dialogue, PostedComment
from bot.testing.github.code_changes import LineNote
from tests.github.conftest import HOME, UNQUOTED, Ground, turns_of


async def test_an_issue_that_mentions_the_bot_is_a_turn(ground: Ground) -> None:
    """Its key, author, role, visible text without the mention, and what was hidden in it."""
    dialogue: Dialogue = ground.dialogue(ground.issue("please @plangate fix it <!-- secretly -->"))
    (turn,) = await turns_of(dialogue)
    assert (turn.key, turn.actor.login, turn.role, turn.edited) == ("issue", "will", Role.WRITE, False)
    assert turn.text == "# Fix *it*\n\nplease fix it"
    assert turn.hidden == ("<!-- secretly -->",)


async def test_thread_without_a_mention_has_no_turn_and_costs_no_role(ground: Ground) -> None:
    """What does not name the bot is context, and costs no look-up of roles; a quotation of its name is no turn."""
    thread = ground.issue("fix it")
    ground.person("rea").comment(HOME, thread, "I agree")
    assert await turns_of(ground.dialogue(thread)) == ()
    assert not [asked for asked in ground.asked("GET") if "permission" in asked]
    ground.person("rea").comment(HOME, thread, "> @plangate\n\nI agree")
    assert await turns_of(ground.dialogue(thread)) == ()


async def test_new_comments_are_turns_in_order_and_known_ones_are_left_out(ground: Ground) -> None:
    thread = ground.issue()
    first = ground.person("mia").comment(HOME, thread, "@plangate and the docs")
    second = ground.person("rea").comment(HOME, thread, "/plangate approve")
    turns = await turns_of(ground.dialogue(thread), {"issue"})
    assert [(turn.key, turn.text, turn.role) for turn in turns] == [
        (f"comment-{first.id}", "and the docs", Role.MAINTAIN),
        (f"comment-{second.id}", "/plangate approve", Role.READ),
    ]
    assert await turns_of(ground.dialogue(thread), {turn.key for turn in turns} | {"issue"}) == ()


async def test_first_line_of_a_command_stays_whole_with_the_mention(ground: Ground) -> None:
    thread = ground.issue("nothing")
    ground.person("mia").comment(HOME, thread, "@plangate revise smaller steps\n\nOne file at a time.")
    (turn,) = await turns_of(ground.dialogue(thread), ())
    assert turn.text == "@plangate revise smaller steps\n\nOne file at a time."


async def test_no_bot_is_heard_unless_it_is_listed_by_number(ground: Ground) -> None:
    world = ground.github.world
    other = world.add_user("helper[bot]", "Bot")
    world.set_role(HOME, "helper[bot]", "write")
    thread = ground.issue("nothing")
    ground.person("helper[bot]").comment(HOME, thread, "@plangate do it")
    await ground.dialogue(thread).post("I am @plangate and /plangate stop", 1)
    assert await turns_of(ground.dialogue(thread), ()) == ()
    listed = await turns_of(ground.dialogue(thread, bots=frozenset({other.id})), ())
    assert [turn.actor.id for turn in listed] == [other.id]


async def test_turns_are_found_beyond_the_newest_page(ground: Ground) -> None:
    """A mention that a hundred comments came after is not dropped, also where something later was heard; what is older
    than all that is not heard is not read again."""
    thread = ground.issue("nothing")
    ground.person("mia").comment(HOME, thread, "@plangate do it")
    for _ in range(110):
        ground.github.world.person("rea").comment(HOME, thread, "noise")
    (turn,) = await turns_of(ground.dialogue(thread), ())
    status = ground.person("mia").comment(HOME, thread, "@plangate status")
    seen = {f"comment-{status.id}"}
    assert [each.key for each in await turns_of(ground.dialogue(thread), seen, turn.at)] == [turn.key]
    asked = len(ground.asked("POST /graphql"))
    assert await turns_of(ground.dialogue(thread), seen, status.created_at) == ()
    assert len(ground.asked("POST /graphql")) == asked + 1


async def test_turns_are_found_beyond_the_newest_reviews(ground: Ground) -> None:
    """A review that a hundred others came after is not dropped, nor is the last of its hundred and one comments."""
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="topic")
    pull = ground.person("will").open_pull(HOME, "Topic", head="topic")
    notes = [LineNote("src/a.py", 1, f"note {n}") for n in range(100)]
    ground.person("mia").review(HOME, pull.number, "See.", notes=[*notes, LineNote("src/a.py", 1, "@plangate tidy up")])
    (turn,) = await turns_of(ground.dialogue(pull.number), ())
    assert "tidy up" in turn.text
    for _ in range(101):
        ground.github.world.person("rea").review(HOME, pull.number, "noise")
    (again,) = await turns_of(ground.dialogue(pull.number), (), turn.at)
    assert (again.key, again.text) == (turn.key, turn.text)
    asked = len(ground.asked("POST /graphql"))
    assert await turns_of(ground.dialogue(pull.number), {turn.key}, ground.clock.now()) == ()
    assert len(ground.asked("POST /graphql")) == asked + 1


async def test_review_and_its_comments_are_one_turn(ground: Ground) -> None:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="topic")
    pull = ground.person("will").open_pull(HOME, "Topic", head="topic")
    review = ground.person("mia").review(HOME, pull.number, "@plangate please tidy up")
    turns = await turns_of(ground.dialogue(pull.number), ())
    assert [(turn.key, turn.text) for turn in turns] == [(f"review-{review.id}", "please tidy up")]


async def test_words_of_others_are_quoted_and_attributed(ground: Ground) -> None:
    thread = ground.issue("the body <!-- hidden -->")
    ground.person("rea").comment(HOME, thread, "an opinion")
    text = await ground.dialogue(thread).context()
    assert all(line.startswith(">") or not line for line in text.split("\n"))
    assert "@rea" in text
    assert "an opinion" in text
    assert "hidden" not in text
    assert await ground.dialogue(thread, UNQUOTED).context() == ""


async def test_hidden_words_of_title_and_context_are_given_beside_a_turn(ground: Ground) -> None:
    """What nobody sees of the title and of what others said is given beside a turn; not what the bot or the turn says,
    nor where nothing is quoted."""
    thread = ground.issue("the body <!-- of will -->", title="Fix\U000e0041\U000e0042")
    await ground.dialogue(thread).post("said by the bot", 1)
    ground.person("rea").comment(HOME, thread, "an opinion <!-- of rea -->")
    ground.person("mia").comment(HOME, thread, "@plangate do it <!-- of mia -->")
    dialogue = ground.dialogue(thread)
    (turn,) = await turns_of(dialogue)
    assert turn.hidden == ("<!-- of mia -->",)
    assert await dialogue.hidden_fragments(turn) == ("‹U+E0041›‹U+E0042›", "<!-- of will -->", "<!-- of rea -->")
    assert await dialogue.hidden_fragments(replace(turn, mark=True)) == ("<!-- of rea -->", "<!-- of mia -->")
    assert await ground.dialogue(thread, UNQUOTED).hidden_fragments(turn) == ()


@pytest.mark.parametrize(("sign", "content"), ((Acknowledgment.SEEN, "eyes"), (Acknowledgment.MAY_NOT, "confused")))
async def test_acknowledging_twice_leaves_one_reaction(ground: Ground, sign: Acknowledgment, content: str) -> None:
    thread = ground.issue()
    said = ground.person("mia").comment(HOME, thread, "@plangate more")
    dialogue = ground.dialogue(thread)
    for turn in (*await turns_of(dialogue), *await turns_of(dialogue)):
        await dialogue.acknowledge(turn, sign)
    world = ground.github.world
    for node in (world.issue(HOME, thread).node_id, said.node_id):
        assert [reaction.content for reaction in world.reactions_to(node)] == [content]


@pytest.mark.req("PR2", "E1")
async def test_plan_proposed_again_is_the_same_comment(ground: Ground) -> None:
    thread = ground.issue()
    plan = ground.plan(thread)
    shown = [await ground.dialogue(thread).propose(plan, 1) for _ in range(2)]
    (comment,) = ground.comments(thread)
    page = f"{ground.github.server_url}/{HOME}/issues/{thread}#issuecomment-{comment.id}"
    assert shown == [PostedComment(comment.node_id, page)] * 2
    found = marker.parse(comment.text.body)
    assert found is not None
    assert (found.kind, found.thread, found.ask, found.digest) == ("plan", thread, 1, plan.digest)
    assert f"plan {plan.plan} ({plan.short_digest})" in comment.text.body
    assert comment.text.body.count("- [ ]") == 1


@pytest.mark.req("PR2", "PR5")
async def test_a_plan_never_takes_the_comment_of_another(ground: Ground) -> None:
    """A journal that began anew counts its asks anew: a plan of another digest gets a comment of its own."""
    thread = ground.issue()
    first = ground.plan(thread)
    other = replace(first, markdown="Something else.")
    shown = [(await ground.dialogue(thread).propose(plan, 1)).id for plan in (first, other, first, other)]
    assert shown == [comment.node_id for comment in ground.comments(thread)] * 2
    assert [comment.text.edits for comment in ground.comments(thread)] == [(), ()]


@pytest.mark.req("PR2", "E1")
async def test_lost_answer_makes_no_second_comment(ground: Ground) -> None:
    thread = ground.issue()
    ground.github.faults.fail("POST */comments", 502, done=True)
    await ground.dialogue(thread).propose(ground.plan(thread), 1)
    assert len(ground.comments(thread)) == 1


@pytest.mark.req("E1")
async def test_no_comment_is_made_while_comments_cannot_be_listed(ground: Ground) -> None:
    thread = ground.issue()
    ground.github.faults.fail("GET */comments*", 500, times=99)
    with pytest.raises(Transient):
        await ground.dialogue(thread).propose(ground.plan(thread), 1)
    assert ground.comments(thread) == []


@pytest.mark.req("E1", "X2")
async def test_edit_that_github_does_not_show_is_made_again(ground: Ground) -> None:
    comments = ground.dialogue(ground.issue()).comments
    await comments.put("waits", 1, "Before.")
    ground.github.faults.stale("GET */issues/comments/*", times=3)
    with pytest.raises(Transient, match="a different text"):
        await comments.put("waits", 1, "After.")
    assert (await comments.put("waits", 1, "After.")).body.startswith("After.")


@pytest.mark.req("E1")
async def test_a_list_that_lags_makes_no_second_comment(ground: Ground) -> None:
    """A comment is done when the list shows it: who looks it up next finds it; an edit is read again as well."""
    comments = ground.dialogue(ground.issue()).comments
    ground.github.faults.stale("GET */comments", times=3)
    first = await comments.put("waits", 1, "Before.")
    assert (await comments.put("waits", 1, "Before.")).id == first.id
    ground.github.faults.stale("GET */issues/comments/*", times=2)
    assert (await comments.put("waits", 1, "After.")).body.startswith("After.")
    assert len(ground.comments(comments.thread)) == 1


async def test_thread_is_read_again_if_it_does_not_show_yet_what_a_webhook_reported(ground: Ground) -> None:
    """A thread that does not show yet what was said is read again; one where it is gone is read as it is."""
    await ground.dialogue(ground.issue()).subject()
    ground.github.faults.stale("POST /graphql")
    dialogue = ground.dialogue(ground.issue())
    dialogue.told = "issue"
    assert (await dialogue.subject()).title == "Fix *it*"
    ground.github.faults.stale("POST /graphql", times=2)
    said = ground.person("mia").comment(HOME, dialogue.thread, "@plangate and the docs")
    dialogue.told = f"comment-{said.id}"
    await dialogue.subject()
    assert said.text.body in await dialogue.context()
    dialogue.told = "comment-1"
    assert (await dialogue.subject()).title == "Fix *it*"


@pytest.mark.req("E1")
async def test_comment_is_found_beyond_the_first_page(ground: Ground) -> None:
    thread = ground.issue()
    for _ in range(120):
        ground.github.world.person("rea").comment(HOME, thread, "noise")
    for _ in range(2):
        await ground.dialogue(thread).post("said once", 1)
    assert len(ground.comments(thread)) == 1


@pytest.mark.req("A4")
async def test_copied_marker_or_one_of_another_key_is_no_comment_of_ours(ground: Ground) -> None:
    thread = ground.issue()
    await ground.dialogue(thread, secret=b"another").post("said", 1)
    copied = ground.comments(thread)[0].text.body
    ground.person("will").comment(HOME, thread, copied)
    await ground.dialogue(thread).post("said", 1)
    assert len(ground.comments(thread)) == 2
    assert len(ground.comments(thread, ours=False)) == 3


@pytest.mark.req("A4b")
async def test_newest_own_comment_ahead_of_the_journal_is_reported_once(ground: Ground) -> None:
    """The newest of the bot's own comments that is ahead of a journal, beyond the newest hundred; no copy of a marker
    by anybody else, none of another key, and none that was set aside. It is said once, and again for another one."""
    thread = ground.issue()
    await ground.dialogue(thread).post("said", 8)
    told = ground.comments(thread)[0]
    await ground.dialogue(thread, secret=b"another").post("said", 20)
    ground.person("will").comment(HOME, thread, told.text.body)
    for _ in range(101):
        ground.github.world.person("rea").comment(HOME, thread, "noise")
    dialogue = ground.dialogue(thread)
    await dialogue.turns((), told.created_at, may_act=lambda _: True)
    assert [await dialogue.find_unrecorded_comment(position, 1) for position in (7, 8)] == [told.id, 0]
    assert await dialogue.warn_of_rewind(told.id, "Set back.") == await dialogue.warn_of_rewind(told.id, "Set back.")
    dialogue.ignore_comments_until(told.id)
    assert await dialogue.find_unrecorded_comment(7, 1) == 0
    await dialogue.post("said anew", 8)
    await dialogue.warn_of_rewind(told.id + 1, "Set back.")
    said = [marker.without(comment.text.body) for comment in ground.comments(thread)]
    assert said == ["said", "said", "Set back.", "said anew", "Set back."]


@pytest.mark.req("X2")
async def test_reply_cannot_mention_link_or_act(ground: Ground) -> None:
    thread = ground.issue()
    await ground.dialogue(thread).post("@mia <b>look</b> https://evil.example", 1)
    said = marker.without(ground.comments(thread)[0].text.body)
    assert said == "`@mia` &lt;b>look&lt;/b> `https://evil.example`"


async def test_plan_superseded_twice_is_marked_and_folded_once(ground: Ground) -> None:
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    shown = (await dialogue.propose(ground.plan(thread), 1)).id
    for _ in range(2):
        await dialogue.supersede(shown, "Plan 2 replaces it.")
    (comment,) = ground.comments(thread)
    assert comment.minimized == "outdated"
    assert comment.text.body.count("Plan 2 replaces it.") == 1


async def test_an_overgrown_plan_comment_can_be_marked(ground: Ground) -> None:
    """Somebody filled it up to GitHub's limit: what replaced the plan is said all the same, once, above it."""
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    shown = (await dialogue.propose(ground.plan(thread), 1)).id
    (comment,) = ground.comments(thread)
    last = comment.text.body.rpartition("\n")[2]
    ground.person("ada").edit_comment(comment.id, "x\r\n" * 20_000 + "y" * (65_000 - 60_000) + f"\n\n{last}")
    for why in ("Plan 2 replaces it.", "Plan 3\nreplaces it."):
        await dialogue.supersede(shown, why)
    (comment,) = ground.comments(thread)
    assert comment.text.body.startswith("**Outdated.** Plan 3 replaces it.\n\nx\n")
    assert comment.text.body.count("**Outdated.**") == 1
    assert comment.text.body.endswith(f"\n\n{last}")
    assert (len(comment.text.body) <= 58_000, comment.minimized) == (True, "outdated")


async def test_explanation_is_one_comment_per_plan(ground: Ground) -> None:
    thread = ground.issue()
    plan, dialogue = ground.plan(thread), ground.dialogue(thread)
    for _ in range(2):
        finding = VerdictReason(Reason.ROLE_TOO_LOW, Actor(5, "rea"))
        await dialogue.explain(plan, Verdict(VerdictOutcome.PENDING, (), (finding,)))
    assert len(ground.comments(thread)) == 1


async def test_progress_is_one_comment_that_ends_with_the_last_state(ground: Ground) -> None:
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    async with dialogue.hold_progress():
        for number in range(50):
            await dialogue.progress(f"step {number}", 1)
    (comment,) = ground.comments(thread)
    assert "step 49" in comment.text.body
    assert len(ground.asked("PATCH")) < 5
    ground.github.faults.fail("* */comments*", 500, times=99)
    async with dialogue.hold_progress():
        await dialogue.progress("never seen", 1)


@pytest.mark.req("E4")
async def test_waiting_progress_of_an_ended_check_is_never_shown(ground: Ground) -> None:
    thread = ground.issue()
    dialogue = ground.dialogue(thread)
    async with dialogue.hold_progress():
        await dialogue.progress("one", 1)
    with suppress(Conflict):
        async with dialogue.hold_progress():
            await dialogue.progress("two", 1)
            raise Conflict("somebody else wrote first")
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    assert ground.comments(thread)[0].text.body.startswith("one")


async def test_fingerprints_show_what_changed(ground: Ground) -> None:
    """A reaction, its removal, an edit and a deletion each change a comment's fingerprint; one query asks for all."""
    thread = ground.issue()
    shown = (await ground.dialogue(thread).propose(ground.plan(thread), 1)).id
    (comment,) = ground.comments(thread)
    seen = [(await fingerprints(ground.client, [shown]))[shown]]
    for change in ("react", "unreact", "edit", "delete"):
        mia = ground.person("mia")
        match change:
            case "react":
                mia.react(comment, "+1")
            case "unreact":
                mia.unreact(comment, "+1")
            case "edit":
                mia.tick(comment.id)
            case _:
                mia.delete_comment(comment.id)
        before = len(ground.github.requests)
        seen.append((await fingerprints(ground.client, [shown]))[shown])
        assert len(ground.github.requests) - before == 1
    assert all(one != two for one, two in itertools.pairwise(seen))
    assert seen[-1] == GONE

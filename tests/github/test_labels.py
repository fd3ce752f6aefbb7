"""The label on the threads that the bot works on: set once, taken off when the thread is closed, and never needed."""

from dataclasses import replace

from bot.core.names import ThreadNumber
from bot.core.turn import Acknowledgment
from bot.github.dialogue import DialogueSettings
from bot.github.tasks import OPEN_LABEL
from bot.github.tokens import AppTokens
from tests.github.conftest import HOME, Ground, turns_of

LABELS = DialogueSettings(label_threads=True)


async def take_in(ground: Ground, thread: ThreadNumber, sign: Acknowledgment = Acknowledgment.SEEN) -> frozenset[str]:
    """Read a thread as a job does, acknowledge what was said, and return the thread's labels."""
    dialogue = ground.dialogue(thread, LABELS)
    for turn in await turns_of(dialogue):
        await dialogue.acknowledge(turn, sign)
    return frozenset(ground.github.world.issue(HOME, thread).labels)


def writes(ground: Ground) -> int:
    return len([asked for asked in ground.asked() if "/labels" in asked and not asked.startswith("GET")])


async def test_first_accepted_turn_labels_its_thread_once(ground: Ground) -> None:
    thread = ground.issue()
    ground.person("mia").label(HOME, thread, "bug")
    ground.person("mia").comment(HOME, thread, "@plangate and the docs")
    assert await take_in(ground, thread) == {"bug", OPEN_LABEL}
    assert await take_in(ground, thread) == {"bug", OPEN_LABEL}
    assert writes(ground) == 1


async def test_pull_request_is_labeled_too(ground: Ground) -> None:
    ground.person("will").push(HOME, {"src/a.py": "a = 2\n"}, branch="topic")
    pull = ground.person("will").open_pull(HOME, "Topic", head="topic", body="@plangate tidy up")
    assert await take_in(ground, ThreadNumber(pull.number)) == {OPEN_LABEL}


async def test_only_what_is_accepted_labels(ground: Ground) -> None:
    """Strangers cannot make a thread the bot's, and neither the service nor a terminal labels anything."""
    thread = ground.issue(by="rea")
    assert await take_in(ground, thread, Acknowledgment.MAY_NOT) == frozenset()
    dialogue = ground.dialogue(thread)
    for turn in await turns_of(dialogue):
        await dialogue.acknowledge(turn, Acknowledgment.SEEN)
    assert writes(ground) == 0


async def test_label_ends_with_the_thread_and_returns_after_reopening(ground: Ground) -> None:
    """Closing takes it off. A mention on a closed thread does not bring it back; one after reopening does."""
    thread = ground.issue()
    await take_in(ground, thread)
    ground.person("mia").close(HOME, thread)
    assert await take_in(ground, thread) == frozenset()
    ground.person("mia").comment(HOME, thread, "@plangate status")
    assert await take_in(ground, thread) == frozenset()
    assert writes(ground) == 2
    ground.person("mia").reopen(HOME, thread)
    assert await take_in(ground, thread) == {OPEN_LABEL}


async def test_refused_label_stops_nothing(ground: Ground) -> None:
    thread = ground.issue()
    tokens = ground.client.credentials
    assert isinstance(tokens, AppTokens)
    ground.client.credentials = replace(tokens, permissions={"issues": "read", "contents": "read"})
    assert await take_in(ground, thread) == frozenset()
    assert writes(ground) == 1

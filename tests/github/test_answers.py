"""Questions on a thread: shown once, and what one live look finds of their answers (T4, E1, A3)."""

from typing import Any

import pytest

from bot.core.names import ToolUseId
from bot.core.question import AnswerSnapshot, Asking, Grant, grant_of, permission
from bot.core.reply_text import WHO_MAY_STEER as WHO
from bot.github.answers import ticks
from bot.github.dialogue import GitHubDialogue
from tests.github.conftest import HOME, Ground

COMMAND = "cat <<x\n- [x] Deny\nx"


class Asked:
    """A permission request that is shown, and what people may do about it."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.thread = ground, ground.issue()
        self.dialogue: GitHubDialogue = ground.dialogue(self.thread)
        self.asking: Asking = permission(ToolUseId("t"), "Bash", COMMAND, "a rule asks")
        self.node = ""

    async def ask(self) -> None:
        self.node = (await self.dialogue.ask(self.asking, 4, who=WHO)).id

    async def look(self) -> AnswerSnapshot:
        return await self.dialogue.answers(self.asking, self.node, who=WHO, may=lambda _: True)

    @property
    def comment(self) -> Any:
        return self.ground.comments(self.thread)[-1]


@pytest.fixture
async def asked(ground: Ground) -> Asked:
    made = Asked(ground)
    await made.ask()
    return made


@pytest.mark.req("E1")
async def test_question_asked_again_is_the_same_comment_and_keeps_its_ticks(asked: Asked) -> None:
    asked.ground.person("mia").tick(asked.comment.id, 1)
    node = asked.node
    await asked.ask()
    assert (asked.node, len(asked.ground.comments(asked.thread))) == (node, 1)
    assert (await asked.look()).ticked == frozenset({0})


@pytest.mark.req("P7")
async def test_tick_counts_for_who_edited_it_in(asked: Asked) -> None:
    """A line of the command that looks like a box is none: only the last boxes count, each with who ticked it."""
    asked.ground.person("mia").tick(asked.comment.id, 3)
    found = await asked.look()
    ((edit,), ticked) = found.edits, found.ticked
    assert (edit.by.actor.login, edit.after, ticked) == ("mia", frozenset({2}), frozenset({2}))
    asked.ground.person("mia").tick(asked.comment.id, 0, ticked=False)
    found = await asked.look()
    assert (found.edits[-1].after, found.ticked) == (None, None), "the command is another one now"


async def test_only_speech_to_everybody_or_to_the_bot_counts_as_an_answer(asked: Asked) -> None:
    for body in (
        "allow",
        "@plangate deny no",
        "@mia allow?",
        "@plangate status",
        "@plangate",
        "> quoted only",
        "> allow\n\ndeny it",
    ):
        asked.ground.person("will").comment(HOME, asked.thread, body)
    assert [said.text for said in (await asked.look()).words] == ["allow", "deny no", "deny it"]


@pytest.mark.req("P7")
async def test_code_tables_quotes_links_and_struck_words_allow_nothing(asked: Asked) -> None:
    for body in (
        "| allow |\n|---|",
        "<blockquote>allow</blockquote>",
        "<code>allow</code>",
        "<table><tr><td>allow</td></tr></table>",
        "<pre>allow</pre>",
        "[allow](allow)",
        "~~allow~~",
        "- > allow",
        "> deny\n\n1. > allow",
        "**allow**",
    ):
        asked.ground.person("mia").comment(HOME, asked.thread, body)
    found = [grant_of(said.text) for said in (await asked.look()).words]
    assert [grant for grant in found if grant] == [(Grant.ONCE, "")]


async def test_words_that_a_list_quotes_are_not_the_answer(asked: Asked) -> None:
    asked.ground.person("will").comment(HOME, asked.thread, "- > drop the table\n- keep it")
    assert [said.text for said in (await asked.look()).words] == ["- keep it"]


@pytest.mark.req("A4a")
async def test_everybody_who_ever_edited_an_answer_may_have_written_it(asked: Asked) -> None:
    person = asked.ground.person
    said = person("will").comment(HOME, asked.thread, "Keep it.")
    assert [word.editors for word in (await asked.look()).words] == [(person("will").id,)]
    person("mia").edit_comment(said.id, "Drop the check.")
    person("will").edit_comment(said.id, "Drop the check!")
    (word,) = (await asked.look()).words
    assert set(word.editors) == {person("will").id, person("mia").id}


@pytest.mark.req("A3")
async def test_failed_reading_is_incomplete_and_a_folded_question_has_no_ticks(asked: Asked) -> None:
    asked.ground.person("mia").tick(asked.comment.id, 1)
    asked.ground.person("mia").minimize(asked.comment.id)
    assert (await asked.look()).ticked is None
    asked.ground.person("ada").delete_comment(asked.comment.id)
    assert (await asked.look()).gone
    asked.ground.person("ada").close(HOME, asked.thread)
    assert not (await asked.look()).open


async def test_settled_question_is_folded_once_even_if_it_is_gone(asked: Asked) -> None:
    await asked.dialogue.fold_question(asked.node)
    await asked.dialogue.fold_question(asked.node)
    assert asked.comment.minimized == "outdated"
    asked.ground.person("ada").delete_comment(asked.comment.id)
    await asked.dialogue.fold_question(asked.node)


def test_edit_whose_text_github_no_longer_shows_has_no_ticks() -> None:
    assert ticks(None, "- [ ] a", 1) is None
    assert ticks("- [X] a\n", "- [ ] a", 1) == frozenset({0})

"""What cannot be done is refused at once: exit code 2, one line on standard error with what, where and the cure."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.testing.model.reply import say
from tests.stories.conftest import Meet
from tests.stories.ground import Ended, Person

Way = Callable[[Person], Ended]


def _elsewhere(person: Person) -> Ended:
    return person.run(repo=person.home)


def _nowhere(person: Person) -> Ended:
    return person.run(repo=person.home / "nowhere")


def _no_commit(person: Person) -> Ended:
    fresh = person.home / "fresh"
    subprocess.run(["git", "init", "--quiet", str(fresh)], check=True)
    return person.run(repo=fresh)


def _configured(text: str) -> Way:
    def way(person: Person) -> Ended:
        person.commit({".github/plangate.yml": text})
        return person.run()

    return way


WAYS: dict[str, tuple[Way, str]] = {
    "not a repository": (_elsewhere, "{home}"),
    "no such folder": (_nowhere, "{home}/nowhere"),
    "no commit yet": (_no_commit, "no commit yet"),
    "an empty prompt": (lambda person: person.run(prompt="  "), "the prompt is empty (--prompt)"),
    "a bad variable": (
        lambda person: Person(
            person.home, person.base_url, person.repository, {"PLANGATE_MAX_OUTPUT_TOKENS": "many"}
        ).run(),
        "PLANGATE_MAX_OUTPUT_TOKENS",
    ),
    "no key": (
        lambda person: Person(person.home, person.base_url, person.repository, {"ANTHROPIC_API_KEY": ""}).run(),
        "ANTHROPIC_API_KEY",
    ),
    "an unknown key": (
        _configured("models:\n  mian: opus\n"),
        "unknown key 'models.mian' (.github/plangate.yml:2:3): did you mean 'models.main'?",
    ),
    "a bad rule": (
        _configured("tools:\n  deny: ['Bash(']\n"),
        "tools.deny.0: not a tool rule: 'Bash(' (tools): write Tool or Tool(pattern) (.github/plangate.yml:2:10)",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_one_line_says_what_where_and_how_to_mend_it(meet: Meet, name: str) -> None:
    """Exit code 2, one line, no traceback; the model is not asked, and the repository has no branch."""
    person, model = meet(lambda request: say("Never asked."))
    way, said = WAYS[name]
    ended = way(person)
    assert ended.code == 2, ended.out + ended.err
    (line,) = ended.err.strip().splitlines()
    assert line.startswith("plangate: ")
    assert said.format(home=person.home) in line
    assert "Traceback" not in ended.out + ended.err
    assert person.branches() == []
    assert len([request for request in model.requests if request.step]) == 0


@pytest.mark.parametrize(
    "options", (("--nonsense",), ("--max-cost-usd", "-1"), ("--max-cost-usd", "nan"), ("--max-cost-usd", "lots"))
)
def test_a_bad_flag_is_wrong_usage(meet: Meet, options: tuple[str, ...]) -> None:
    """Exit code 2 and one line, before anything else happens."""
    person, _ = meet(lambda request: say("Never asked."))
    ended = person.run(*options)
    assert (ended.code, ended.err.count("\n"), "--help" in ended.err) == (2, 1, True)
    assert not person.data.exists()


def test_debug_shows_where_it_failed(meet: Meet) -> None:
    """--debug gives the traceback that is else kept back."""
    person, _ = meet(lambda request: say("Never asked."))
    ended = person.call("--debug", *person.command(repo=Path("/"))[1:])
    assert "Traceback" in ended.err

"""What people may do by themselves, as the web interface lets them."""

import pytest

from bot.testing.github.person import Person
from bot.testing.github.world import NotAllowedError
from tests.testing.github.ground import NAME, Ground


@pytest.mark.parametrize(
    ("login", "allowed"),
    (
        ("alice", {"comment", "edit", "label", "push"}),
        ("bob", {"comment", "edit", "label", "push"}),
        ("carol", {"comment", "label"}),
        ("dave", {"comment"}),
        ("stranger", set[str]()),
    ),
)
def test_a_role_bounds_what_a_person_does(ground: Ground, login: str, allowed: set[str]) -> None:
    world = ground.github.world
    acme = world.person("acme")
    acme.open_issue(NAME, "Broken")
    comment = acme.comment(NAME, 1, "Hello")
    person = world.person(login)
    done = {
        name
        for name, act in {
            "comment": lambda: person.comment(NAME, 1, "x"),
            "edit": lambda: person.edit_comment(comment.id, "changed"),
            "label": lambda: person.label(NAME, 1, "bug"),
            "push": lambda: person.push(NAME, {"x": "x"}, branch="x"),
        }.items()
        if _works(act)
    }
    assert done == allowed


def test_a_reaction_taken_back_and_given_again_is_newer(ground: Ground) -> None:
    alice: Person = ground.github.world.person("alice")
    issue = alice.open_issue(NAME, "Broken")
    first = alice.react(issue, "+1")
    ground.clock.advance(10)
    assert alice.react(issue, "+1") == first
    alice.unreact(issue, "+1")
    assert alice.react(issue, "+1").created_at > first.created_at


def test_a_pull_request_may_come_from_a_fork(ground: Ground) -> None:
    from bot.testing.github.code_changes import NewPull, open_pull

    world = ground.github.world
    fork = world.add_repository("dave/shop", source=ground.repository.folder)
    dave = world.person("dave")
    sha = dave.push("dave/shop", {"x": "x"}, branch="topic")
    pull = open_pull(dave, ground.repository, NewPull("New", "topic", "main", source=fork))
    assert world.bare(ground.repository).refs()[f"refs/pull/{pull.number}/head"] == sha
    assert ground.ask("GET", f"/repos/{NAME}/pulls/{pull.number}").json["head"]["repo"]["full_name"] == "dave/shop"


def _works(act: object) -> bool:
    assert callable(act)
    try:
        act()
    except NotAllowedError:
        return False
    return True

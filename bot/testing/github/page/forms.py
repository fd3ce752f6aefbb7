"""The actions behind the page's forms. Each calls person.py, which checks the acting person's role.

A function takes the visit, the thread, and the form's fields, and returns the address to go to next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from bot.testing.github.conversation import BODY_LIMIT
from bot.testing.github.entities import Comment, Issue, Review
from bot.testing.github.page.frame import Scene, address
from bot.testing.github.page.markdown import toggle_box
from bot.testing.github.person import NotAllowedError, Person
from bot.testing.github.world import NotThereError

Form: TypeAlias = Mapping[str, str]
Action: TypeAlias = Callable[[Scene, Issue, Form], str]


def open_issue(scene: Scene, form: Form) -> str:
    """Open an issue. Raises NotAllowedError without a title."""
    title = form.get("title", "").strip()
    if not title:
        raise NotAllowedError("an issue needs a title")
    issue = _person(scene).open_issue(scene.repository.full_name, title, _body(form))
    return address(scene.repository, issue)


def comment(scene: Scene, issue: Issue, form: Form) -> str:
    """Post a comment if the form has text, and close or reopen the thread if that button was pressed."""
    person, place = _person(scene), (scene.repository.full_name, issue.number)
    body, then = _body(form), form.get("then", "")
    anchor = ""
    if body.strip():
        anchor = f"#issuecomment-{person.comment(*place, body).id}"
    if then == "close":
        person.close(*place)
    elif then == "reopen":
        person.reopen(*place)
    return scene.path + anchor


def react(scene: Scene, issue: Issue, form: Form) -> str:
    """Add a reaction, or remove the person's own if it is already there."""
    subject, content = _subject(scene, issue, form), form.get("content", "")
    person = _person(scene)
    own = [each.content for each in scene.world.reactions_to(subject.node_id) if each.user == person.id]
    if content in own:
        person.unreact(subject, content)
    else:
        person.react(subject, content)
    return f"{scene.path}#{form['subject']}"


def tick(scene: Scene, issue: Issue, form: Form) -> str:
    """Toggle a checkbox in a text, which counts as an edit by this person."""
    person, subject = _person(scene), _subject(scene, issue, form)
    line = form.get("box", "")
    body = toggle_box(subject.text.body, int(line) if line.isdecimal() else -1)
    match subject:
        case Issue():
            person.edit_issue(scene.repository.full_name, issue.number, body=body)
        case Comment():
            person.edit_comment(subject.id, body)
        case Review():
            raise NotAllowedError("a review has no boxes to tick")
    return f"{scene.path}#{form['subject']}"


def label(scene: Scene, issue: Issue, form: Form) -> str:
    """Add a label, or remove it if it is already set."""
    person, name = _person(scene), form.get("label", "")
    change = person.unlabel if name in issue.labels else person.label
    change(scene.repository.full_name, issue.number, name)
    return scene.path


def merge(scene: Scene, issue: Issue, _: Form) -> str:
    """Merge a pull request."""
    _person(scene).merge(scene.repository.full_name, issue.number)
    return scene.path


ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {"comments": comment, "reactions": react, "tick": tick, "labels": label, "merge": merge}
)
"""The actions on a thread, by the last part of the address."""


def _person(scene: Scene) -> Person:
    return scene.world.person(scene.viewer.login)


def _body(form: Form) -> str:
    """Return the text of a form. Browsers send line breaks as CR LF."""
    body = form.get("body", "")
    if len(body) > BODY_LIMIT:
        raise NotAllowedError(f"a text of more than {BODY_LIMIT} characters is too long")
    return body


def _subject(scene: Scene, issue: Issue, form: Form) -> Issue | Comment | Review:
    """Return the issue, comment, or review that the form refers to. It must be on this thread."""
    anchor = form.get("subject", "")
    things: list[Issue | Comment | Review] = [*scene.world.comments_of(issue), *scene.world.reviews_of(issue)]
    prefixes = {Comment: "issuecomment", Review: "pullrequestreview"}
    by_anchor = {f"{prefixes[type(thing)]}-{thing.id}": thing for thing in things}
    by_anchor[f"issue-{issue.id}"] = issue
    if anchor not in by_anchor:
        raise NotThereError("this is not there any more")
    return by_anchor[anchor]

"""The actions behind the pages' forms, and the pages on which people create and install an App.

A function takes the visit, the thread, and the form's fields, and returns the address to go to next.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from bot.testing.github.conversation import BODY_LIMIT
from bot.testing.github.credentials import create_app, install, parse_manifest, redirect_with_code
from bot.testing.github.entities import App, Comment, Issue, Repository, Review, Role, User
from bot.testing.github.page.frame import Scene, Visit, address
from bot.testing.github.page.markdown import Child, element, toggle_box
from bot.testing.github.person import Person
from bot.testing.github.world import GitHubState, NotAllowedError, NotThereError

Form: TypeAlias = Mapping[str, str]
Action: TypeAlias = Callable[[Scene, Issue, Form], str]


def open_issue(scene: Scene, form: Form) -> str:
    title = form.get("title", "").strip()
    if not title:
        raise NotAllowedError("an issue needs a title")
    issue = _person(scene).open_issue(scene.repository.full_name, title, _body(form))
    return address(scene.repository, issue)


def comment(scene: Scene, issue: Issue, form: Form) -> str:
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
    subject, content = _subject(scene, issue, form), form.get("content", "")
    person = _person(scene)
    own = [each.content for each in scene.world.reactions_to(subject.node_id) if each.user == person.id]
    if content in own:
        person.unreact(subject, content)
    else:
        person.react(subject, content)
    return f"{scene.path}#{form['subject']}"


def tick(scene: Scene, issue: Issue, form: Form) -> str:
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
    person, name = _person(scene), form.get("label", "")
    change = person.unlabel if name in issue.labels else person.label
    change(scene.repository.full_name, issue.number, name)
    return scene.path


def merge(scene: Scene, issue: Issue, _: Form) -> str:
    _person(scene).merge(scene.repository.full_name, issue.number)
    return scene.path


ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {"comments": comment, "reactions": react, "tick": tick, "labels": label, "merge": merge}
)  # the actions on a thread, by the last part of the address


def _person(scene: Scene) -> Person:
    return scene.world.person(scene.viewer.login)


def _body(form: Form) -> str:
    """Return the text of a form. Browsers send line breaks as CR LF."""
    body = form.get("body", "")
    if len(body) > BODY_LIMIT:
        raise NotAllowedError(f"a text of more than {BODY_LIMIT} characters is too long")
    return body


def _subject(scene: Scene, issue: Issue, form: Form) -> Issue | Comment | Review:
    anchor = form.get("subject", "")
    things: list[Issue | Comment | Review] = [*scene.world.comments_of(issue), *scene.world.reviews_of(issue)]
    prefixes = {Comment: "issuecomment", Review: "pullrequestreview"}
    by_anchor = {f"{prefixes[type(thing)]}-{thing.id}": thing for thing in things}
    by_anchor[f"issue-{issue.id}"] = issue
    if anchor not in by_anchor:
        raise NotThereError("this is not there any more")
    return by_anchor[anchor]


# The pages on which people create an App from a manifest, and install it on repositories.
# https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest


def new_app(visit: Visit, organization: str | None, manifest: str, state: str) -> tuple[Child, str]:
    """Return the page that asks for the name of a new App, and the URL to which its form finally redirects.

    Raises NotAllowedError for a manifest that GitHub does not accept.
    """
    owner = _owner(visit, organization)
    parsed = parse_manifest(manifest)
    base = f"/organizations/{owner.login}/settings/apps" if organization else "/settings/apps"
    form = element(
        "form", element("p", element("label", "GitHub App name", for_="name")),
        element("p", element("input", type="text", id="name", name="name", value=parsed.name, required=True)),
        element("input", type="hidden", name="manifest", value=manifest),
        element("input", type="hidden", name="state", value=state),
        element("button", f"Create GitHub App for {owner.login}", class_="button primary"), method="post", action=base,
    )  # fmt: skip
    return [element("h1", "Create GitHub App"), form], parsed.redirect_url


def make_app(visit: Visit, organization: str | None, form: Mapping[str, str]) -> str:
    owner = _owner(visit, organization)
    manifest = parse_manifest(form.get("manifest", ""))
    app = create_app(visit.world, manifest, form.get("name", "").strip(), owner)
    return redirect_with_code(visit.world, app, manifest, form.get("state", ""))


def app_page(visit: Visit, slug: str) -> tuple[str, Child]:
    app = _app(visit.world, slug)
    link = element("a", "Install", href=f"/apps/{app.slug}/installations/new", class_="button primary")
    return app.name, [element("h1", app.name), element("p", link)]


def installing(visit: Visit, slug: str) -> Child:
    app = _app(visit.world, slug)
    homes = _homes(visit, app)
    choices = [
        element(
            "p",
            element("input", type="checkbox", id=f"r{home.id}", name=f"r{home.id}", value="1"),
            " ",
            element("label", home.full_name, for_=f"r{home.id}"),
        )
        for home in homes
    ]
    form = element(
        "form", element("p", "Select repositories; with none selected, the App gets all of them."), choices,
        element("button", "Install", class_="button primary"), method="post", action=f"/apps/{app.slug}/installations",
    )  # fmt: skip
    return [element("h1", f"Install {app.name}"), form]


def install_app(visit: Visit, slug: str, form: Mapping[str, str]) -> str:
    app = _app(visit.world, slug)
    selected = [home for home in _homes(visit, app) if f"r{home.id}" in form]
    install(visit.world, app, visit.world.users[app.owner].login, selected or None)
    return f"/apps/{app.slug}"


def _app(world: GitHubState, slug: str) -> App:
    for app in world.apps.values():
        if app.slug == slug:
            return app
    raise NotThereError(f"App {slug}")


def _homes(visit: Visit, app: App) -> list[Repository]:
    homes = [repository for repository in visit.world.repositories.values() if repository.owner == app.owner]
    if not _administers(visit, visit.world.users[app.owner]):
        raise NotAllowedError("only an owner of this account can install the App")
    return homes


def _owner(visit: Visit, organization: str | None) -> User:
    if organization is None:
        return visit.world.add_user(visit.viewer.login)
    owner = visit.world.user(organization)
    if owner.type != "Organization" or not _administers(visit, owner):
        raise NotThereError(f"organization {organization}")
    return owner


def _administers(visit: Visit, account: User) -> bool:
    homes = [repository for repository in visit.world.repositories.values() if repository.owner == account.id]
    is_admin = any(visit.world.role(home, visit.viewer.id) is Role.ADMIN for home in homes)
    return visit.viewer.id == account.id or is_admin

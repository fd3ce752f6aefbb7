"""The pages on which people create an App from a manifest, and install it on repositories.

https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

from collections.abc import Mapping

from bot.testing.github.app_manifests import BadManifestError, create_app, parse_manifest, redirect_with_code
from bot.testing.github.credentials import install
from bot.testing.github.entities import App, Repository, Role, User
from bot.testing.github.page.frame import Visit
from bot.testing.github.page.html import Child, element
from bot.testing.github.person import NotAllowedError
from bot.testing.github.world import GitHubState, NotThereError


def new_app(visit: Visit, organization: str | None, manifest: str, state: str) -> tuple[Child, str]:
    """Return the page that asks for the name of a new App, and the address to which its form leads in the end.

    Raises NotAllowedError for a manifest that GitHub does not accept.
    """
    owner = _owner(visit, organization)
    try:
        parsed = parse_manifest(manifest)
    except BadManifestError as error:
        raise NotAllowedError(str(error)) from None
    base = f"/organizations/{owner.login}/settings/apps" if organization else "/settings/apps"
    form = element(
        "form",
        element("p", element("label", "GitHub App name", for_="name")),
        element("p", element("input", type="text", id="name", name="name", value=parsed.name, required=True)),
        element("input", type="hidden", name="manifest", value=manifest),
        element("input", type="hidden", name="state", value=state),
        element("button", f"Create GitHub App for {owner.login}", class_="button primary"),
        method="post",
        action=base,
    )
    return [element("h1", "Create GitHub App"), form], parsed.redirect_url


def make_app(visit: Visit, organization: str | None, form: Mapping[str, str]) -> str:
    """Create the App, and return the address that the person is sent to. Raises NotAllowedError."""
    owner = _owner(visit, organization)
    try:
        manifest = parse_manifest(form.get("manifest", ""))
        app = create_app(visit.world, manifest, form.get("name", "").strip(), owner)
    except BadManifestError as error:
        raise NotAllowedError(str(error)) from None
    return redirect_with_code(visit.world, app, manifest, form.get("state", ""))


def app_page(visit: Visit, slug: str) -> tuple[str, Child]:
    """Return the title and the content of an App's page."""
    app = _app(visit.world, slug)
    link = element("a", "Install", href=f"/apps/{app.slug}/installations/new", class_="button primary")
    return app.name, [element("h1", app.name), element("p", link)]


def installing(visit: Visit, slug: str) -> Child:
    """Return the form that asks on which repositories of its owner's an App is installed."""
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
        "form",
        element("p", "Select repositories; with none selected, the App gets all of them."),
        choices,
        element("button", "Install", class_="button primary"),
        method="post",
        action=f"/apps/{app.slug}/installations",
    )
    return [element("h1", f"Install {app.name}"), form]


def install_app(visit: Visit, slug: str, form: Mapping[str, str]) -> str:
    """Install an App on the chosen repositories, and return the address of the App's page."""
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
    """Return the repositories of the App's owner. Raises NotAllowedError for people who do not administer them."""
    homes = [repository for repository in visit.world.repositories.values() if repository.owner == app.owner]
    if not _administers(visit, visit.world.users[app.owner]):
        raise NotAllowedError("only an owner of this account can install the App")
    return homes


def _owner(visit: Visit, organization: str | None) -> User:
    """Return the account that will own the App. An organization that the viewer does not own is treated as missing."""
    if organization is None:
        return visit.world.add_user(visit.viewer.login)
    owner = visit.world.user(organization)
    if owner.type != "Organization" or not _administers(visit, owner):
        raise NotThereError(f"organization {organization}")
    return owner


def _administers(visit: Visit, account: User) -> bool:
    """Return whether the viewer is the account, or has the admin role on one of its repositories."""
    homes = [repository for repository in visit.world.repositories.values() if repository.owner == account.id]
    is_admin = any(visit.world.role(home, visit.viewer.id) is Role.ADMIN for home in homes)
    return visit.viewer.id == account.id or is_admin

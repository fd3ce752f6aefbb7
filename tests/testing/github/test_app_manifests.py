"""Apps made from a manifest on the simulated GitHub: its pages, and the code that is worth the secrets once."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import requests

from bot.testing.github.credentials import BadManifestError, create_app, parse_manifest, redirect_with_code, take_app
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.github.world import GitHubState, TurnedClock
from tests.rows import every_row
from tests.testing.github.app_manifest import FACTS, MANIFEST


@pytest.fixture
def github(tmp_path: Path) -> Iterator[SimulatedGitHub]:
    """The organization acme has two repositories; ada administers one, where will writes."""
    with SimulatedGitHub(tmp_path, pages=page_routes) as github:
        github.world.add_user("acme", "Organization")
        for name in ("acme/shop", "acme/other"):
            github.world.add_repository(name, {"README.md": "# Read me\n"})
        for login, role in {"ada": "admin", "will": "write"}.items():
            github.world.set_role("acme/shop", login, role)
        yield github


def post(url: str, form: dict[str, str] | None = None, login: str = "ada", **headers: str) -> requests.Response:
    cookies = {"acting_as": login}
    return requests.post(url, form, cookies=cookies, headers=headers, allow_redirects=False, timeout=20)


def test_a_manifest_leads_from_the_form_to_the_secrets(github: SimulatedGitHub) -> None:
    base = f"{github.server_url}/organizations/acme/settings/apps"
    form, foreign = {"manifest": MANIFEST, "name": "Acme's gate", "state": "s1"}, {"Origin": "http://127.0.0.1:1"}
    shown = post(f"{base}/new?state=s1", {"manifest": MANIFEST}, **foreign)
    assert "Create GitHub App for acme" in shown.text
    assert 'value="s1"' in shown.text
    assert "form-action 'self' http://127.0.0.1:1;" in shown.headers["Content-Security-Policy"]
    assert post(base, form, **foreign).status_code == 403
    back, _, query = post(base, form).headers["Location"].partition("?")
    found = dict(parse_qsl(query))
    assert (back, found["state"]) == (FACTS["redirect_url"], "s1")
    assert "already been taken" in post(base, form).text
    url = f"{github.api_url}/app-manifests/{found['code']}/conversions"
    answer = requests.post(url, timeout=20)
    assert (answer.status_code, answer.json()["slug"], answer.json()["owner"]["login"]) == (201, "acme-s-gate", "acme")
    assert requests.post(url, timeout=20).status_code == 404


def test_only_an_owner_makes_and_installs_an_app(github: SimulatedGitHub) -> None:
    base, world = f"{github.server_url}/organizations/acme/settings/apps", github.world
    assert post(f"{base}/new", {"manifest": MANIFEST}, "will").status_code == 404
    post(base, {"manifest": MANIFEST, "name": "gate"})
    install, home = f"{github.server_url}/apps/gate/installations", world.repository("acme/shop")
    assert home.full_name in requests.get(f"{install}/new", cookies={"acting_as": "ada"}, timeout=20).text
    assert post(install, {f"r{home.id}": "1"}, "will").status_code == 403
    assert post(install, {f"r{home.id}": "1"}).status_code == 303
    (installed,) = world.installations.values()
    assert (world.apps[installed.app].slug, installed.repositories) == ("gate", frozenset({home.id}))


def test_a_code_is_worth_nothing_after_an_hour(tmp_path: Path) -> None:
    clock = TurnedClock()
    world = GitHubState(tmp_path, clock)
    asked = parse_manifest(MANIFEST)
    made = create_app(world, asked, "a", world.add_user("ada"))
    code = redirect_with_code(world, made, asked, "").partition("code=")[2]
    clock.advance(3601)
    assert take_app(world, code) is None


@every_row(
    ("change", "told"),
    (
        ({"url": ""}, "'url' wasn't supplied"),
        ({"redirect_url": "x"}, "redirect_url"),
        ({"callback_urls": ["x"]}, "callback_urls"),
        ({"callback_urls": ["https://a"] * 11}, "callback_urls"),
        ({"hook_attributes": {}}, "Hook url wasn't supplied"),
        ({"hook_attributes": {"url": "http://localhost:8000/x"}}, "public Internet"),
        ({"hook_attributes": {"url": "http://127.0.0.1:8000/x"}}, "public Internet"),
        ({"default_permissions": {"issues": "all"}}, "permission"),
    ),
)
def test_a_refused_manifest_says_why(change: dict[str, object], told: str) -> None:
    with pytest.raises(BadManifestError, match=told):
        parse_manifest(json.dumps(FACTS | change))


def test_the_pages_bring_their_stylesheet(github: SimulatedGitHub) -> None:
    sheet = requests.get(f"{github.server_url}/static/page.css", timeout=10)
    assert (sheet.status_code, "--background" in sheet.text) == (200, True)

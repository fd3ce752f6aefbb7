"""The set-up in the browser: what it asks for, what it saves, and who is refused. Each test speaks HTTP to it."""

import http.client
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from bot.logs import setup
from bot.testing.github.entities import App
from bot.testing.github.faults import Fault
from tests.webhooks.set_up_ground import FORM, PUBLIC, Ground, ground

pytestmark = pytest.mark.req("W4a")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Ground]:
    with ground(tmp_path) as made:
        yield made


def created_app(place: Ground) -> App:
    return next(each for each in place.github.world.apps.values() if each.slug != "elsewhere")


def conversions(place: Ground) -> int:
    return sum("/app-manifests/" in each.path for each in place.github.requests)


def test_from_the_printed_address_to_the_saved_app(place: Ground) -> None:
    """The App is what the docs say that it needs; its credentials are in one file that only this user can read; the
    set-up is closed; the last page installs the App and holds no secret."""
    operator = place.operator()
    begun = operator.begin()
    asked = json.loads(begun["manifest"])
    assert asked["hook_attributes"] == {"url": f"{PUBLIC}/webhooks/github", "active": True}
    assert (asked["public"], asked["redirect_url"]) == (False, f"{place.base}/setup/callback")
    assert urlsplit(begun["url"]).path == "/organizations/acme/settings/apps/new"
    path = place.create(begun)
    got = operator.get(path)
    app = created_app(place)
    assert got.status == 200
    assert f'href="{place.github.server_url}/apps/{app.slug}/installations/new"' in got.text
    saved = json.loads(place.file.read_text())
    assert saved["PLANGATE_APP_ID"] == str(app.id)
    assert (saved["PLANGATE_PRIVATE_KEY"], saved["PLANGATE_WEBHOOK_SECRET"]) == (app.pem, app.webhook_secret)
    assert (saved["PLANGATE_CLIENT_ID"], saved["PLANGATE_CLIENT_SECRET"]) == (app.client_id, app.client_secret)
    assert saved["GITHUB_API_URL"] == place.github.api_url
    assert place.file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in place.file.parent.iterdir()] == [place.file.name]
    assert not any(secret in got.text for secret in (app.pem[40:80], app.webhook_secret, app.client_secret))
    assert [operator.get(each).status for each in (path, "/setup")] == [410, 410]
    assert operator.post("/setup", FORM).status == 410


def test_an_app_of_a_person(place: Ground) -> None:
    """It asks for nothing of an organization, and is posted to the page of personal accounts."""
    operator = place.operator()
    begun = operator.begin(FORM | {"owner": "person"})
    assert urlsplit(begun["url"]).path == "/settings/apps/new"
    assert "members" not in json.loads(begun["manifest"])["default_permissions"]
    assert operator.get(place.create(begun)).status == 200


def test_a_mistake_in_the_form(place: Ground) -> None:
    """It is told beside its field, and what was typed stays."""
    got = place.operator().post("/setup", FORM | {"url": "http://localhost:8000"})
    assert (got.status, "cannot reach this machine" in got.text, "manifest" in got.text) == (422, True, False)
    assert 'value="Acme&#x27;s Plangate"' in got.text
    assert 'value="http://localhost:8000"' in got.text


def test_changing_something(place: Ground) -> None:
    """Whoever goes back to the form finds what they typed."""
    operator = place.operator()
    operator.begin(FORM | {"owner": "person", "name": "Mine"})
    text = operator.get("/setup").text
    assert ('value="Mine"' in text, 'value="person" checked' in text, f'value="{PUBLIC}"' in text) == (True, True, True)


def test_what_people_type_is_not_html(place: Ground) -> None:
    """Neither beside a mistake nor on the page that confirms it."""
    evil = '"><script>x</script>'
    operator = place.operator()
    for form in (FORM | {"name": evil, "url": evil}, FORM | {"name": evil}, FORM | {"organization": evil}):
        assert "<script" not in operator.post("/setup", form).text


def test_the_token_works_once(place: Ground) -> None:
    """It becomes a cookie of one browser, which leaves the token at once. Nobody else gets in with it, or without."""
    operator, other = place.visitor(), place.visitor()
    printed = f"/setup?token={place.routes.visitor.token}"
    first = operator.get(printed)
    assert (first.status, first.headers["location"]) == (303, "/setup")
    assert {"HttpOnly", "SameSite=lax", "Path=/setup"} <= set(first.headers["set-cookie"].split("; "))
    assert operator.get("/setup").status == 200
    for path in (printed, "/setup", "/setup?token=", "/setup/callback?code=1&state=1"):
        assert other.get(path).status == 403
    assert other.post("/setup", FORM).status == 403
    assert other.cookies == {}
    again = operator.get(printed)
    assert (again.status, again.headers["location"]) == (303, "/setup")


def test_a_thousand_wrong_tokens(place: Ground) -> None:
    """They open nothing, lock nobody out, and do not fill the log."""
    lines: list[str] = []

    class Lines:
        def write(self, text: str) -> None:
            lines.append(text)

    setup("json", out=Lines())
    where = urlsplit(place.base)
    connection, answers = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20), set()
    for n in range(1000):
        connection.request("GET", f"/setup?token={n}")
        answer = connection.getresponse()
        answers.add((answer.status, answer.getheader("set-cookie"), len(answer.read())))
    connection.close()
    assert [(status, cookie) for status, cookie, _ in answers] == [(403, None)]
    assert lines == []
    assert place.operator().get("/setup").status == 200


def test_the_pages_let_nobody_else_in(place: Ground) -> None:
    """No framing, no foreign script, style, or form target, no address with parameters to another site, no cache."""
    operator = place.operator()
    for got in (operator.get("/setup"), operator.post("/setup", FORM), place.visitor().get("/setup")):
        policy = dict(each.split(" ", 1) for each in got.headers["content-security-policy"].split("; "))
        assert re.fullmatch(r"'sha256-[\w+/]{43}='", policy.pop("style-src"))
        assert policy == {
            "default-src": "'none'",
            "form-action": f"'self' {place.github.server_url}",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        assert (got.headers["x-frame-options"], got.headers["cache-control"]) == ("DENY", "no-store")
        assert (got.headers["referrer-policy"], got.headers["x-content-type-options"]) == ("strict-origin", "nosniff")
        assert place.routes.visitor.token not in got.text
        assert "<script" not in got.text


def test_another_name_for_this_machine(place: Ground) -> None:
    """A page on the internet whose name is pointed here (DNS rebinding) learns nothing, and does not use the token."""
    printed = f"/setup?token={place.routes.visitor.token}"
    for path in (printed, "/setup", "/setup/callback"):
        assert place.visitor().get(path, host="evil.example").status == 421
    operator = place.operator()
    assert operator.get("/setup", host="localhost:9999").status == 200
    assert operator.get("/setup", host="evil.example").status == 421
    assert operator.post("/setup", FORM, host="evil.example", origin="http://evil.example").status == 421


def test_a_form_of_another_page(place: Ground) -> None:
    """Even with the cookie, which another port of this machine would send (CSRF)."""
    operator = place.operator()
    for origin in ("https://evil.example", "http://127.0.0.1:1", "null", ""):
        assert operator.post("/setup", FORM, origin=origin).status == 403


def test_a_form_that_is_too_large(place: Ground) -> None:
    """It is not read to its end."""
    assert place.operator().post("/setup", FORM | {"more": "x" * 20_000}).status == 400


def test_an_answer_with_another_state(place: Ground) -> None:
    """GitHub is not even asked, and the right answer counts afterwards."""
    operator = place.operator()
    path = place.create(operator.begin())
    code = dict(parse_qsl(urlsplit(path).query))["code"]
    for state in ("", "&state=", "&state=wrong", "&state=%C3%A9%ED%A0%80", f"&state={'x' * 43}"):
        assert operator.get(f"/setup/callback?code={code}{state}").status == 400
    assert conversions(place) == 0
    assert place.visitor().get(path).status == 403
    assert operator.get(path).status == 200


def test_only_the_newest_form_counts(place: Ground) -> None:
    """GitHub is not asked about the answer to an older one."""
    operator = place.operator()
    first, second = operator.begin(), operator.begin(FORM | {"name": "Another"})
    assert first["url"] != second["url"]
    assert operator.get(place.create(first)).status == 400
    assert conversions(place) == 0
    assert operator.get(place.create(second, name="Another")).status == 200
    assert conversions(place) == 1


def test_the_same_answer_twice_at_once(place: Ground) -> None:
    """It makes one App, whichever of them comes first."""
    operator = place.operator()
    path = place.create(operator.begin())
    place.github.faults.plan("POST /app-manifests/*", Fault("delay", seconds=0.2))
    with ThreadPoolExecutor() as beside:
        answers = list(beside.map(operator.get, (path, path)))
    assert sorted(each.status for each in answers) == [200, 410]
    assert conversions(place) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    (
        ({"owner": "mallory"}, "it belongs to mallory, not to acme"),
        ({"homepage": "https://evil.example/"}, "another homepage"),
        ({"permissions": {"issues": "write"}}, "other permissions"),
    ),
)
def test_the_code_of_another_app(place: Ground, change: dict[str, Any], told: str) -> None:
    """Nothing of it is saved, and its state is used up."""
    operator = place.operator()
    path = place.create(operator.begin())
    world = place.github.world
    if "owner" in change:
        change["owner"] = world.add_user(change["owner"]).id
    app = created_app(place)
    world.apps[app.id] = replace(app, **change)
    got = operator.get(path)
    assert (got.status, told in got.text, "Nothing was saved" in got.text) == (400, True, True)
    assert f"{place.github.server_url}/organizations/acme/settings/apps" in got.text
    assert not place.file.exists()
    assert operator.get(path).status == 400
    assert conversions(place) == 1


def test_a_code_that_was_used(place: Ground) -> None:
    """The App may exist without a key here: the page says where it is, and what to do with it."""
    operator = place.operator()
    path = place.create(operator.begin())
    place.github.world.manifest_codes.clear()
    got = operator.get(path)
    assert got.status == 400
    assert f'href="{place.github.server_url}/organizations/acme/settings/apps"' in got.text
    assert "generate a private key" in got.text
    assert "PLANGATE_PRIVATE_KEY_PATH" in got.text
    assert operator.get(place.create(operator.begin(), name="Another")).status == 200


def test_what_is_no_code(place: Ground) -> None:
    """It never becomes a part of an address at GitHub."""
    operator = place.operator()
    for code in ("", "..%2F..%2Fuser", "x" * 129, "a%20b"):
        assert operator.get(f"/setup/callback?code={code}&{urlsplit(operator.begin()['url']).query}").status == 400
    assert conversions(place) == 0


def test_github_does_not_answer(place: Ground) -> None:
    """The same page counts when it is loaded again."""
    operator = place.operator()
    path = place.create(operator.begin())
    place.github.faults.fail("POST /app-manifests/*", 502)
    got = operator.get(path)
    assert (got.status, "Reload this page" in got.text) == (503, True)
    assert operator.get(path).status == 200


@pytest.mark.req("D2")
def test_no_way_to_save_after_github_answered(place: Ground) -> None:
    """The process keeps the key, and the same page saves it; GitHub is asked once."""
    operator = place.operator()
    path = place.create(operator.begin())
    folder = place.file.parent
    folder.rename(folder.with_name("away"))
    got = operator.get(path)
    assert (got.status, "only this process knows its key" in got.text) == (503, True)
    folder.with_name("away").rename(folder)
    assert operator.get(path).status == 200
    assert place.file.exists()
    assert conversions(place) == 1


def test_credentials_that_are_there_are_kept(place: Ground) -> None:
    """Whoever wrote them meanwhile: they stay as they are, and the page says what to do with the new App."""
    operator = place.operator()
    path = place.create(operator.begin())
    place.file.write_text("mine")
    got = operator.get(path)
    assert (got.status, "which were kept" in got.text) == (400, True)
    assert place.file.read_text() == "mine"


def test_secrets_stay_out_of_the_log(place: Ground) -> None:
    """Neither token, cookie, state, and code, nor what GitHub answered, in success and failure."""
    lines: list[str] = []

    class Lines:
        def write(self, text: str) -> None:
            lines.append(text)

    setup("json", "DEBUG", out=Lines())
    operator = place.operator()
    path = place.create(operator.begin())
    place.github.faults.fail("POST /app-manifests/*", 502)
    assert [operator.get(each).status for each in (path, "/setup/callback?code=1&state=2", path)] == [503, 400, 200]
    assert len(lines) == 3
    app, query = created_app(place), dict(parse_qsl(urlsplit(path).query))
    hidden = [place.routes.visitor.token, *operator.cookies.values(), *query.values()]
    hidden += [app.pem[40:80], app.webhook_secret, app.client_secret]
    assert not [secret for secret in hidden if secret in "".join(lines)]


def test_nothing_else_is_served(place: Ground) -> None:
    """503 with what to do; deliveries as well, which GitHub then shows as failed."""
    for path in ("/", "/webhooks/github", "/metrics", "/readyz", "/openapi.json", "/api/threads"):
        got = place.visitor().get(path)
        assert (got.status, "not set up yet" in got.text) == (503, True)
        assert place.visitor().post(path, {}).status == 503
    assert place.visitor().get("/healthz", host="10.0.0.5").text == '{"status":"ok"}'

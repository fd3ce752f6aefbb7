"""The set-up in the browser: what it asks for, what it saves, and who is refused."""

import http.client
import io
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from bot.compose.app_set_up import open_app_set_up
from bot.config.settings import GitHubSettings, Settings
from bot.core.errors import Misconfigured
from bot.core.secrets.redaction import Redactor
from bot.logs import setup
from bot.testing.github.entities import App
from bot.testing.github.faults import Fault
from tests.rows import every_row
from tests.webhooks.set_up_ground import FORM, PUBLIC, Ground, ground
from webhooks.setup.set_up import SetUpVisitor, announce_set_up, read_form

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


def test_an_app_of_a_person_asks_for_nothing_of_an_organization(place: Ground) -> None:
    operator = place.operator()
    begun = operator.begin(FORM | {"owner": "person"})
    assert urlsplit(begun["url"]).path == "/settings/apps/new"
    assert "members" not in json.loads(begun["manifest"])["default_permissions"]
    assert operator.get(place.create(begun)).status == 200


def test_a_mistake_is_told_beside_its_field_and_what_was_typed_stays(place: Ground) -> None:
    got = place.operator().post("/setup", FORM | {"url": "http://localhost:8000"})
    assert (got.status, "cannot reach this machine" in got.text, "manifest" in got.text) == (422, True, False)
    assert 'value="Acme&#x27;s Plangate"' in got.text
    assert 'value="http://localhost:8000"' in got.text


def test_whoever_goes_back_to_the_form_finds_what_they_typed(place: Ground) -> None:
    operator = place.operator()
    operator.begin(FORM | {"owner": "person", "name": "Mine"})
    text = operator.get("/setup").text
    assert ('value="Mine"' in text, 'value="person" checked' in text, f'value="{PUBLIC}"' in text) == (True, True, True)


def test_what_people_type_is_not_html(place: Ground) -> None:
    evil = '"><script>x</script>'
    operator = place.operator()
    for form in (FORM | {"name": evil, "url": evil}, FORM | {"name": evil}, FORM | {"organization": evil}):
        assert "<script" not in operator.post("/setup", form).text


def test_the_token_works_once_and_becomes_a_cookie_of_one_browser(place: Ground) -> None:
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


def test_a_thousand_wrong_tokens_open_nothing_and_lock_nobody_out(place: Ground) -> None:
    lines = io.StringIO()
    setup("json", out=lines)
    where = urlsplit(place.base)
    connection, answers = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20), set()
    for n in range(1000):
        connection.request("GET", f"/setup?token={n}")
        answer = connection.getresponse()
        answers.add((answer.status, answer.getheader("set-cookie"), len(answer.read())))
    connection.close()
    assert [(status, cookie) for status, cookie, _ in answers] == [(403, None)]
    assert lines.getvalue() == ""
    assert place.operator().get("/setup").status == 200


def test_the_pages_allow_no_framing_foreign_script_form_target_or_cache(place: Ground) -> None:
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


def test_another_name_for_this_machine_learns_nothing_and_does_not_use_the_token(place: Ground) -> None:
    printed = f"/setup?token={place.routes.visitor.token}"
    for path in (printed, "/setup", "/setup/callback"):
        assert place.visitor().get(path, host="evil.example").status == 421
    operator = place.operator()
    assert operator.get("/setup", host="localhost:9999").status == 200
    assert operator.get("/setup", host="evil.example").status == 421
    assert operator.post("/setup", FORM, host="evil.example", origin="http://evil.example").status == 421


def test_a_form_of_another_page_is_refused_even_with_the_cookie(place: Ground) -> None:
    operator = place.operator()
    for origin in ("https://evil.example", "http://127.0.0.1:1", "null", ""):
        assert operator.post("/setup", FORM, origin=origin).status == 403


def test_a_form_that_is_too_large_is_not_read_to_its_end(place: Ground) -> None:
    assert place.operator().post("/setup", FORM | {"more": "x" * 20_000}).status == 400


def test_an_answer_with_another_state_never_reaches_github(place: Ground) -> None:
    operator, path = place.created()
    code = dict(parse_qsl(urlsplit(path).query))["code"]
    for state in ("", "&state=", "&state=wrong", "&state=%C3%A9%ED%A0%80", f"&state={'x' * 43}"):
        assert operator.get(f"/setup/callback?code={code}{state}").status == 400
    assert conversions(place) == 0
    assert place.visitor().get(path).status == 403
    assert operator.get(path).status == 200


def test_only_the_newest_form_counts(place: Ground) -> None:
    operator = place.operator()
    first, second = operator.begin(), operator.begin(FORM | {"name": "Another"})
    assert first["url"] != second["url"]
    assert operator.get(place.create(first)).status == 400
    assert conversions(place) == 0
    assert operator.get(place.create(second, name="Another")).status == 200
    assert conversions(place) == 1


def test_the_same_answer_twice_at_once_makes_one_app(place: Ground) -> None:
    operator, path = place.created()
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
def test_nothing_of_another_app_is_saved(place: Ground, change: dict[str, Any], told: str) -> None:
    operator, path = place.created()
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


def test_a_code_that_was_used_leads_to_the_app_that_exists(place: Ground) -> None:
    operator, path = place.created()
    place.github.world.manifest_codes.clear()
    got = operator.get(path)
    assert got.status == 400
    assert f'href="{place.github.server_url}/organizations/acme/settings/apps"' in got.text
    assert "generate a private key" in got.text
    assert "PLANGATE_PRIVATE_KEY_PATH" in got.text
    assert operator.get(place.create(operator.begin(), name="Another")).status == 200


def test_what_is_no_code_never_becomes_part_of_an_address(place: Ground) -> None:
    operator = place.operator()
    for code in ("", "..%2F..%2Fuser", "x" * 129, "a%20b"):
        assert operator.get(f"/setup/callback?code={code}&{urlsplit(operator.begin()['url']).query}").status == 400
    assert conversions(place) == 0


def test_an_answer_that_github_did_not_confirm_counts_when_it_is_loaded_again(place: Ground) -> None:
    operator, path = place.created()
    place.github.faults.fail("POST /app-manifests/*", 502)
    got = operator.get(path)
    assert (got.status, "Reload this page" in got.text) == (503, True)
    assert operator.get(path).status == 200


@pytest.mark.req("D2")
def test_a_key_that_cannot_be_saved_is_kept_and_saved_by_a_reload(place: Ground) -> None:
    operator, path = place.created()
    folder = place.file.parent
    folder.rename(folder.with_name("away"))
    got = operator.get(path)
    assert (got.status, "only this process knows its key" in got.text) == (503, True)
    folder.with_name("away").rename(folder)
    assert operator.get(path).status == 200
    assert place.file.exists()
    assert conversions(place) == 1


def test_credentials_that_are_there_are_kept(place: Ground) -> None:
    operator, path = place.created()
    place.file.write_text("mine")
    got = operator.get(path)
    assert (got.status, "which were kept" in got.text) == (400, True)
    assert place.file.read_text() == "mine"


def test_secrets_stay_out_of_the_log(place: Ground) -> None:
    lines = io.StringIO()
    setup("json", "DEBUG", out=lines)
    operator, path = place.created()
    place.github.faults.fail("POST /app-manifests/*", 502)
    assert [operator.get(each).status for each in (path, "/setup/callback?code=1&state=2", path)] == [503, 400, 200]
    assert lines.getvalue().count("\n") == 3
    app, query = created_app(place), dict(parse_qsl(urlsplit(path).query))
    hidden = [place.routes.visitor.token, *operator.cookies.values(), *query.values()]
    hidden += [app.pem[40:80], app.webhook_secret, app.client_secret]
    assert not [secret for secret in hidden if secret in lines.getvalue()]


def test_nothing_but_the_set_up_is_served_before_it_is_over(place: Ground) -> None:
    for path in ("/", "/webhooks/github", "/metrics", "/readyz", "/openapi.json", "/api/threads"):
        got = place.visitor().get(path)
        assert (got.status, "not set up yet" in got.text) == (503, True)
        assert place.visitor().post(path, {}).status == 503
    assert place.visitor().get("/healthz", host="10.0.0.5").text == '{"status":"ok"}'


@every_row(
    ("listens", "name", "is_ours"),
    (
        ("127.0.0.1", "localhost:9999", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "10.0.0.5:8000", False),
        ("127.0.0.1", "127.0.0.1@evil.example", False),
        ("127.0.0.1", "[", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "10.0.0.5:8000", True),  # noqa: S104 - only named
        ("0.0.0.0", "evil.example", False),  # noqa: S104 - only named
        ("build.internal", "build.internal:8000", True),
        ("build.internal", "evil.example", False),
    ),
)
def test_only_names_of_this_machine_or_of_its_host_are_served(listens: str, name: str, is_ours: bool) -> None:
    assert SetUpVisitor(listens).may_name(name) is is_ours


@every_row(
    ("change", "told"),
    (
        ({"organization": "https://github.com/acme"}, "login"),
        ({"organization": ""}, "login"),
        ({"name": "x" * 35}, "1 to 34 characters"),
        ({"name": " "}, "1 to 34 characters"),
        ({"url": "plangate.acme.example"}, "https://plangate.example.com"),
        ({"url": "ftp://plangate.acme.example"}, "must begin with https://"),
        ({"url": "https://user@plangate.acme.example"}, "https://plangate.example.com"),
        ({"url": "https://[x"}, "https://plangate.example.com"),
        ({"url": "https://localhost:8000"}, "cannot reach this machine"),
        ({"url": "https://127.0.0.1:8000"}, "cannot reach this machine"),
    ),
)
def test_each_mistake_in_the_form_is_told_for_its_field(change: dict[str, str], told: str) -> None:
    found = read_form(FORM | change, "https://github.com").mistakes
    assert found.keys() == change.keys()
    assert told in found.popitem()[1]


def test_the_printed_address_warns_if_other_machines_can_reach_it(capsys: pytest.CaptureFixture[str]) -> None:
    near, wide = SetUpVisitor("::1"), SetUpVisitor("0.0.0.0")  # noqa: S104 - only named
    announce_set_up(near, ("::1", 8000))
    told = capsys.readouterr()
    assert f"    http://[::1]:8000/setup?token={near.token}\n" in told.err
    assert ("warning" in told.err, told.out) == (False, "")
    announce_set_up(wide, ("0.0.0.0", 80))  # noqa: S104 - only named
    told = capsys.readouterr()
    assert f"http://localhost:80/setup?token={wide.token}" in told.err
    assert "warning: other machines can reach the set-up" in told.err


def test_settings_of_two_servers_are_refused(tmp_path: Path) -> None:
    mixed = GitHubSettings(server_url="https://ghes.internal")
    with (
        pytest.raises(Misconfigured, match="GITHUB_API_URL"),
        open_app_set_up(Settings(data_dir=tmp_path, github=mixed), Redactor()),
    ):
        pass


@pytest.mark.parametrize("url", (PUBLIC, f"{PUBLIC}/", f"{PUBLIC}/webhooks/github"))
def test_the_webhook_is_at_the_public_address_with_or_without_its_path(url: str) -> None:
    form = read_form(FORM | {"url": url, "owner": "person"}, "https://github.com")
    assert (form.webhook_url, form.owner, dict(form.mistakes)) == (f"{PUBLIC}/webhooks/github", "", {})


def test_a_server_without_https_may_deliver_over_http() -> None:
    assert not read_form(FORM | {"url": "http://plangate.internal"}, "http://ghes.internal").mistakes

"""How people authorize an App: codes, PKCE, expiring tokens, and what such a token reaches.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
"""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import requests

from bot.testing.github.oauth import ACCESS_LIFE, CODE_LIFE, REFRESH_LIFE, challenge_of
from tests.testing.github.ground import NAME, Ground

CALLBACK = "http://127.0.0.1:4321/sign-in/callback"
VERIFIER = "v" * 43


def code(ground: Ground, login: str = "bob", **asked: str) -> str:
    query = {"client_id": ground.github.app.client_id, "redirect_uri": CALLBACK, "state": "s", **asked}
    url = f"{ground.github.server_url}/login/oauth/authorize?{urlencode(query)}"
    answer = requests.post(url, data={"login": login}, allow_redirects=False, timeout=10)
    assert answer.status_code == 302
    back = parse_qs(urlsplit(answer.headers["location"]).query)
    assert (answer.headers["location"].partition("?")[0], back["state"]) == (CALLBACK, ["s"])
    return back["code"][0]


def exchange(ground: Ground, **form: str) -> dict[str, object]:
    """Ask the token endpoint, which answers every request with status 200."""
    app = ground.github.app
    own = {"client_id": app.client_id, "client_secret": app.client_secret}
    url, headers = f"{ground.github.server_url}/login/oauth/access_token", {"Accept": "application/json"}
    answer = requests.post(url, data={**own, **form}, headers=headers, timeout=10)
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()
    return found


def test_the_tokens_are_shaped_as_githubs(ground: Ground) -> None:
    found = exchange(ground, code=code(ground), redirect_uri=CALLBACK)
    assert str(found["access_token"]).startswith("ghu_")
    assert str(found["refresh_token"]).startswith("ghr_")
    rest = {key: value for key, value in found.items() if key not in {"access_token", "refresh_token"}}
    lifetimes = {"expires_in": 28_800, "refresh_token_expires_in": 15_897_600}
    assert rest == {**lifetimes, "scope": "", "token_type": "bearer"}
    plain = requests.post(f"{ground.github.server_url}/login/oauth/access_token", timeout=10)
    assert plain.text.startswith("error=incorrect_client_credentials&")


def test_a_code_works_once_and_for_ten_minutes(ground: Ground) -> None:
    first, late = code(ground), code(ground)
    assert "access_token" in exchange(ground, code=first)
    assert exchange(ground, code=first)["error"] == "bad_verification_code"
    ground.clock.advance(CODE_LIFE.total_seconds())
    assert exchange(ground, code=late)["error"] == "bad_verification_code"


@pytest.mark.parametrize(
    ("changed", "error"),
    (
        ({"client_secret": "x"}, "incorrect_client_credentials"),
        ({"client_id": "x"}, "incorrect_client_credentials"),
        ({"redirect_uri": "http://127.0.0.1:4321/elsewhere"}, "redirect_uri_mismatch"),
        ({"code_verifier": "w" * 43}, "bad_verification_code"),
        ({"code_verifier": ""}, "bad_verification_code"),
    ),
)
def test_an_exchange_needs_secret_callback_and_verifier(ground: Ground, changed: dict[str, str], error: str) -> None:
    made = code(ground, code_challenge=challenge_of(VERIFIER), code_challenge_method="S256")
    assert exchange(ground, **{"code": made, "code_verifier": VERIFIER, **changed})["error"] == error


def test_the_challenge_is_that_of_the_standard() -> None:
    """https://datatracker.ietf.org/doc/html/rfc7636#appendix-B"""
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize(
    "asked",
    (
        {"redirect_uri": "https://evil.example/sign-in/callback"},
        {"redirect_uri": "http://127.0.0.1:1/elsewhere"},
        {"code_challenge": "x" * 43, "code_challenge_method": "plain"},
        {"code_challenge": "short", "code_challenge_method": "S256"},
    ),
)
def test_a_browser_is_sent_to_registered_callbacks_alone(ground: Ground, asked: dict[str, str]) -> None:
    query = {"client_id": ground.github.app.client_id, "redirect_uri": CALLBACK, **asked}
    url = f"{ground.github.server_url}/login/oauth/authorize?{urlencode(query)}"
    assert requests.post(url, data={"login": "bob"}, allow_redirects=False, timeout=10).status_code == 400


def test_renewing_ends_the_old_tokens(ground: Ground) -> None:
    first = exchange(ground, code=code(ground))
    again = {"grant_type": "refresh_token", "refresh_token": str(first["refresh_token"])}
    second = exchange(ground, **again)
    assert [ground.ask("GET", "/user", token=str(each["access_token"])).status for each in (first, second)] == [
        401, 200,
    ]  # fmt: skip
    assert exchange(ground, **again)["error"] == "bad_refresh_token"
    ground.clock.advance(ACCESS_LIFE.total_seconds())
    assert ground.ask("GET", "/user", token=str(second["access_token"])).status == 401
    ground.clock.advance(REFRESH_LIFE.total_seconds())
    late = {"grant_type": "refresh_token", "refresh_token": str(second["refresh_token"])}
    assert exchange(ground, **late)["error"] == "bad_refresh_token"


def test_a_persons_token_reaches_what_both_reach(ground: Ground) -> None:
    world, token = ground.github.world, str(exchange(ground, code=code(ground))["access_token"])
    world.add_repository("acme/other", {}, private=True)
    world.add_repository("bob/own", {}, private=True)
    (installation,) = ground.ask("GET", "/user/installations", token=token).json["installations"]
    listed = ground.ask("GET", f"/user/installations/{installation['id']}/repositories", token=token).json
    assert [(each["full_name"], each["permissions"]["push"]) for each in listed["repositories"]] == [(NAME, True)]
    statuses = [ground.ask("GET", f"/repos/{name}", token=token).status for name in (NAME, "acme/other", "bob/own")]
    assert statuses == [200, 404, 404]
    said = ground.ask("POST", f"/repos/{NAME}/issues", {"title": "By hand"}, token=token).json
    assert said["user"]["login"] == "bob"


def test_what_the_app_may_not_do_its_people_may_not_do_through_it(ground: Ground) -> None:
    token = str(exchange(ground, code=code(ground, "alice"))["access_token"])
    assert ground.ask("GET", f"/repos/{NAME}/hooks", token=token).status in {403, 404}
    assert ground.ask("GET", "/user/installations", token=ground.pat("alice")).status == 403

"""The App that the set-up saved reaches the settings, unless the environment says who the bot is."""

import json
from pathlib import Path

import pytest

from bot.config.environment import redactor_for, settings
from bot.core.errors import Misconfigured

SAVED = {
    "PLANGATE_APP_ID": "7",
    "PLANGATE_PRIVATE_KEY": "-----BEGIN A-KEY-----\nMIIEpAIBAAKCAQEA1c7\n-----END A-KEY-----",
    "PLANGATE_WEBHOOK_SECRET": "f3a19c0b7d5e",
    "PLANGATE_CLIENT_SECRET": "9b2e64d81ac7",
    "GITHUB_SERVER_URL": "https://ghes.internal",
    "GITHUB_API_URL": "https://ghes.internal/api/v3",
    "ANTHROPIC_API_KEY": "not read",
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "github-app.json").write_text(json.dumps(SAVED))
    return {"HOME": str(tmp_path), "PLANGATE_DATA_DIR": str(tmp_path)}


@pytest.mark.req("W4a")
def test_the_saved_app_counts(env: dict[str, str]) -> None:
    """With its server, and nothing that does not belong to an App; its secrets are redacted."""
    given = settings(env)
    github = given.github
    assert (github.app_id, github.private_key.reveal()) == ("7", SAVED["PLANGATE_PRIVATE_KEY"])
    assert (github.as_app, github.needs_set_up) == (True, False)
    assert (github.webhook_secret.reveal(), github.server_url) == ("f3a19c0b7d5e", "https://ghes.internal")
    assert github.graphql_url == "https://ghes.internal/api/graphql"
    assert not given.api_key
    told = redactor_for(environ=env).redact("f3a19c0b7d5e and 9b2e64d81ac7")
    assert told == "[redacted: webhook secret] and [redacted: client secret]"


def test_the_environment_takes_precedence(env: dict[str, str]) -> None:
    """One variable by itself; and whoever the environment names, nothing of the saved App counts."""
    given = settings(env | {"PLANGATE_WEBHOOK_SECRET": "mine"}).github
    assert (given.app_id, given.webhook_secret.reveal()) == ("7", "mine")
    other = settings(env | {"PLANGATE_GITHUB_TOKEN": "token"}).github
    assert (other.as_app, bool(other.webhook_secret), other.server_url) == (False, False, "https://github.com")
    assert settings(env | {"PLANGATE_APP_ID": "8"}).github.app_id == "8"
    assert not settings(env | {"PLANGATE_APP_ID": "8"}).github.private_key


@pytest.mark.parametrize(
    "text", ("", "{", "[]", '{"PLANGATE_APP_ID": 7}', '{"PLANGATE_APP_ID": "7", "PLANGATE_APP_ID": "8"}')
)
def test_a_file_that_was_damaged(env: dict[str, str], tmp_path: Path, text: str) -> None:
    """It is named, with its cure. It never counts as a service that was not set up."""
    (tmp_path / "github-app.json").write_text(text)
    with pytest.raises(Misconfigured, match=r"github-app\.json.*delete it and set up the App again"):
        settings(env)
    redactor_for(environ=env)


def test_nothing_was_saved(tmp_path: Path) -> None:
    """The service needs its set-up only while nothing of an account is there."""
    env = {"PLANGATE_DATA_DIR": str(tmp_path)}
    assert settings(env).github.needs_set_up
    for name in ("PLANGATE_APP_ID", "PLANGATE_PRIVATE_KEY", "PLANGATE_GITHUB_TOKEN", "PLANGATE_WEBHOOK_SECRET"):
        assert not settings(env | {name: "x"}).github.needs_set_up

"""The settings in the environment, the file of the saved App, and where a mistake in the configuration is."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from bot.compose.parts import gate_of
from bot.config.environment import configuration, log_style, redactor_for, settings, settings_of_person
from bot.config.repository_file import LARGEST
from bot.config.settings import Secret, ServiceSettings
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured
from tests.rows import every_row

ROOT = Path(__file__).parents[2]


def test_nothing_set_gives_the_defaults() -> None:
    """An empty environment is no error; an empty variable counts as unset."""
    given = settings({"HOME": "/home/p", "ANTHROPIC_API_KEY": " ", "PLANGATE_DATA_DIR": ""})
    assert not given.api_key
    assert (given.base_url, given.output_cap, dict(given.extra_body)) == (None, None, {})
    assert given.data_dir.name == "plangate"
    assert given.data_dir.is_relative_to("/home/p")


def test_each_variable_is_read() -> None:
    """The documented variables reach the settings as they are."""
    given = settings(
        {
            "ANTHROPIC_API_KEY": "key",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
            "PLANGATE_DATA_DIR": "/data",
            "PLANGATE_STATE_KEY": "state",
            "PLANGATE_MAX_OUTPUT_TOKENS": "32000",
            "PLANGATE_PARTIAL_CLONE_MB": "100",
            "PLANGATE_SESSIONS": "2",
            "PLANGATE_LOOKS": "20",
            "PLANGATE_CONNECTIONS_PER_ADDRESS": "500",
            "PLANGATE_SIGNING_KEY_PATH": "/keys/bot",
            "PLANGATE_EXTRA_BODY": '{"service_tier": "auto"}',
        }
    )
    assert (given.api_key.reveal(), given.state_key.reveal()) == ("key", "state")
    assert (given.base_url, given.data_dir) == ("http://127.0.0.1:1", Path("/data"))
    assert (given.output_cap, dict(given.extra_body)) == (32000, {"service_tier": "auto"})
    assert (given.partial_clone_mb, settings({}).partial_clone_mb) == (100, 256)
    assert given.service == ServiceSettings(sessions=2, looks=20, connections_per_address=500)
    assert settings({}).service == ServiceSettings(sessions=4, looks=8, connections_per_address=64)
    assert (given.signing_key, settings({}).signing_key) == (Path("/keys/bot"), None)


def test_white_space_around_a_value_does_not_count() -> None:
    """A secret that is mounted from a file often ends with a newline. What keys are derived from stays as it is."""
    names = ("ANTHROPIC_API_KEY", "PLANGATE_GITHUB_TOKEN", "PLANGATE_APP_ID", "PLANGATE_WEBHOOK_SECRET")
    given = settings({"HOME": "/home/p", **dict.fromkeys((*names, "PLANGATE_STATE_KEY"), " x\n")})
    github = given.github
    assert [given.api_key.reveal(), github.token.reveal(), github.app_id, github.webhook_secret.reveal()] == ["x"] * 4
    assert given.state_key.reveal() == " x\n"


def test_user_without_a_home_directory_is_told_what_to_set() -> None:
    """As in OpenShift: a user id that /etc/passwd does not know, and no HOME."""
    script = (
        "from bot.cli.main import main\nfrom bot.config.environment import settings\n"
        "given = {'PLANGATE_DATA_DIR': '/data', 'PLANGATE_PRIVATE_KEY_PATH': '~/key'}\n"
        "given['PLANGATE_SIGNING_KEY_PATH'] = '~nobody-here/key'\n"
        "for extra in {'PLANGATE_DATA_DIR': '/data'}, given, {'PLANGATE_DATA_DIR': '~nobody-here/data'}:\n"
        "    try:\n        print(settings(extra).data_dir)\n    except Exception as error:\n        print(error)\n"
        "print(settings({'XDG_DATA_HOME': '/x'}).data_dir, settings({'HOME': '/'}).data_dir)\nmain(['--help'])"
    )
    box = ("bwrap", "--unshare-user", "--uid", "4321", "--ro-bind", "/", "/", "--unsetenv", "HOME")
    done = subprocess.run([*box, sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)
    told = "this user has no home directory to keep data in (HOME): set PLANGATE_DATA_DIR to a folder that this user"
    first, second, third, fourth, *rest = done.stdout.splitlines()
    assert (done.returncode, done.stderr, first) == (0, "", "/data")
    assert second.startswith("the private key cannot be read: No such file or directory (PLANGATE_PRIVATE_KEY_PATH)")
    assert third.startswith(told)
    assert fourth == "/x/plangate /.local/share/plangate"
    assert rest[0].startswith("usage: plangate")


def test_a_relative_data_directory_is_made_absolute() -> None:
    """The data directory does not move when the program changes its folder."""
    assert settings({"PLANGATE_DATA_DIR": "here"}).data_dir.is_absolute()


@every_row(
    ("name", "value"),
    (
        ("PLANGATE_MAX_OUTPUT_TOKENS", "many"),
        ("PLANGATE_MAX_OUTPUT_TOKENS", "0"),
        ("PLANGATE_MAX_OUTPUT_TOKENS", "-1"),
        ("PLANGATE_PARTIAL_CLONE_MB", "1.5"),
        ("PLANGATE_SESSIONS", "0"),
        ("PLANGATE_LOOKS", "all"),
        ("PLANGATE_CONNECTIONS_PER_ADDRESS", "none"),
        ("PLANGATE_STALL_SECONDS", "0"),
        ("PLANGATE_EXTRA_BODY", "{"),
        ("PLANGATE_EXTRA_BODY", "[]"),
    ),
)
def test_a_bad_variable_is_named(name: str, value: str) -> None:
    """The error says which variable is wrong, and how to fix it."""
    with pytest.raises(Misconfigured) as raised:
        settings({name: value})
    assert (raised.value.where, bool(raised.value.fix), raised.value.exit_code) == (name, True, 2)


@pytest.mark.parametrize("name", ("debug", "INFO", "warn", "Warning", "error", "critical"))
def test_levels_go_by_their_usual_names(name: str) -> None:
    """In either case, and each is one that logging knows."""
    _, level = log_style({"PLANGATE_LOG_LEVEL": name})
    assert level.lower() == name.lower()
    assert level in logging.getLevelNamesMapping()


@pytest.mark.req("PR4")
def test_a_secret_never_prints() -> None:
    """No way of turning it into text shows it, alone or inside of the settings."""
    secret = Secret("hunter2")
    given = settings({"ANTHROPIC_API_KEY": "hunter2", "PLANGATE_STATE_KEY": "hunter2", "HOME": "/h"})
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>20}", repr(given), str({"key": secret})]
    assert [text for text in shown if "hunter2" in text] == []
    assert secret.reveal() == "hunter2"


def test_an_empty_file_is_the_defaults() -> None:
    """No file, an empty one, and one of comments mean the same."""
    assert configuration("") == configuration("# nothing\n") == Configuration()


MISTAKES = {
    "unknown key": ("mentoin: x\n", ":1:1", "did you mean 'mention'?"),
    "unknown key below": ("budget:\n  minutes: 5\n  dollars: 3\n", ":3:3", ""),
    "near key below": ("approve:\n  role: [admin]\n", ":2:3", "did you mean 'approve.roles'?"),
    "wrong type": ("budget:\n  steps: many\n", ":2:3", ""),
    "out of range": ("execution:\n  subagents:\n    at_once: 11\n", ":3:5", ""),
    "everyone approves": ("approve:\n  roles: [admin, read]\n", ":2:18", ""),
    "everyone asks": ("ask:\n  roles: [read]\n", ":2:11", ""),
    "no such class": ("paths:\n  classes:\n    deployment: [x]\n", ":3:5", ""),
    "a glob that takes back": ("paths:\n  classes:\n    docs: ['!x']\n", ":3:12", ""),
    "key twice": ("mention: a\nmention: b\n", ":2:1", ""),
    "not a mapping": ("- a\n", "", ""),
    "tabs": ("budget:\n\tsteps: 3\n", ":2:1", ""),
    "not closed": ("models: [\n", ":2:1", ""),
    "an alias": ("models: &a {}\nbudget: *a\n", "", "write each value out"),
    "too deep": ("[" * 30 + "]" * 30, "", "write each value out"),
    "too large": ("#" * (LARGEST + 1), "", "shorten it"),
    "a control character": ("ask:\n  users: [a\x07b]\n", ":2:12", "remove the character"),
    "half a character": ("mention: \ud800", ":1:10", "remove the character"),
    "no such day": ("budget: 2020-13-45\n", "", "correct the line"),
    "no such number": ("budget: !!int ten\n", "", "correct the line"),
    "no mention": ("mention: ''\n", ":1:1", ""),
    "a mention of two words": ("mention: '@plan gate'\n", ":1:1", ""),
    "a python tag": ("mention: !!python/object/apply:os.system ['true']\n", "", ""),
}


@pytest.mark.req("X4")
@every_row("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    """Each mistake is refused with file, line and column where it has one, and the cure."""
    text, place, fix = MISTAKES[name]
    with pytest.raises(Misconfigured) as raised:
        configuration(text, "plangate.yml")
    assert raised.value.where == f"plangate.yml{place}" or (not place and raised.value.where.startswith("plangate.yml"))
    assert fix in raised.value.fix
    assert raised.value.fix
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("environ", "url", "proxy"),
    (
        ({}, "https://github.com/o/n", ""),
        ({"HTTPS_PROXY": "http://p:1"}, "https://github.com/o/n", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:1"}, "https://github.com/o/n", "http://q:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://127.0.0.1:8000/o/n", ""),
        ({"all_proxy": "http://p:1"}, "https://github.com/o/n", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".corp,github.com"}, "https://github.com/o/n", ""),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, "https://github.com/o/n", ""),
    ),
)
def test_proxy_of_a_url(environ: dict[str, str], url: str, proxy: str) -> None:
    """The operator's proxy is used as every other program would use it."""
    assert settings(environ).network.proxy(url) == proxy


@pytest.mark.parametrize(("rule", "near"), (("bash(rm:*)", "Bash"), ("Websearch", "WebSearch"), ("Edits", "Edit")))
def test_a_rule_for_no_tool_is_refused(rule: str, near: str) -> None:
    """It would deny nothing, and nobody would see that."""
    with pytest.raises(Misconfigured, match=f"no such tool: .*did you mean '{near}'"):
        gate_of(configuration(f"tools:\n  deny: ['{rule}']\n"), sandboxed=True)


def leaves(part: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a part of the configuration, with the path to each, and their defaults."""
    for name, field in part.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from leaves(field.annotation, f"{before}{name}.")
        else:
            yield before + name, field.default


def test_the_docs_name_every_setting() -> None:
    """Each key with its default, in the order of the schema, and each variable that is read."""
    docs = (ROOT / "docs/settings.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| `(.*?)` \|", docs, re.MULTILINE)
    assert rows == [(key, json.dumps(default)) for key, default in leaves(Configuration)]
    read = set(
        re.findall(r'"((?:PLANGATE|OTEL|ANTHROPIC|GITHUB)_\w+)"', (ROOT / "bot/config/environment.py").read_text())
    )
    redacted = {"PLANGATE_CLIENT_SECRET", "PLANGATE_JOB_TOKEN", "ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN"}
    assert {name for name in read - redacted if f"`{name}`" not in docs} == set()


def test_the_token_of_a_person() -> None:
    """Commands about a repository take the token that `gh` would take, and the bot's own credentials before it."""
    names = ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "PLANGATE_GITHUB_TOKEN")
    given, taken = dict[str, str](), dict[str, list[str]]()
    for name in names:
        given[name] = f"of {name}"
        for server in ("https://github.com", "https://git.acme.example"):
            token = settings_of_person({**given, "GITHUB_SERVER_URL": server}).github.token.reveal()
            taken.setdefault(server, []).append(token.removeprefix("of "))
    public, enterprise = taken.values()
    assert public == ["GITHUB_TOKEN", "GH_TOKEN", "GH_TOKEN", "GH_TOKEN", "PLANGATE_GITHUB_TOKEN"]
    assert enterprise == list(names)
    assert settings(given | {"GH_TOKEN": ""}).github.token.reveal() == "of PLANGATE_GITHUB_TOKEN"


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

"""Every input reaches the settings, and a wrong one is named; inputs alone say with which keys the Action speaks."""

from pathlib import Path

import pytest

from bot.config.action_inputs import INPUTS, action
from bot.core.errors import Misconfigured
from bot.service.connections import key_of
from bot.store.sealing import StateKey
from tests.rows import every_row

RUNNER = {"GITHUB_EVENT_NAME": "issues", "GITHUB_EVENT_PATH": "/e.json", "GITHUB_REPOSITORY": "o/r", "HOME": "/h"}
KEYS = {"INPUT_ANTHROPIC_API_KEY": "sk-1", "INPUT_GITHUB_TOKEN": "ghs_1"}
GIVEN = RUNNER | KEYS
IDENTITY = {
    "INPUT_ANTHROPIC_FEDERATION_RULE_ID": "fdrl_1",
    "INPUT_ANTHROPIC_ORGANIZATION_ID": "org",
    "INPUT_ANTHROPIC_SERVICE_ACCOUNT_ID": "svac_1",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "https://id",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "proof-token",
}


def test_what_is_needed_is_enough() -> None:
    """With a key and the runner's own variables, everything else has its default."""
    given = action(GIVEN)
    assert (given.event, given.event_path, given.repository) == ("issues", Path("/e.json"), "o/r")
    assert (given.wait_minutes, given.dry_run, given.only_listen) == (0.0, False, False)
    assert (given.run, action(GIVEN | {"GITHUB_RUN_ID": "9"}).run) == ("", "9")
    overrides = given.settings.overrides
    assert (overrides.mention, overrides.model, overrides.max_cost_usd) == (None, None, None)
    assert overrides.path == ".github/plangate.yml"


def test_each_input_is_read() -> None:
    """No input of action.yml is without effect: each one set alone changes what the program is given."""
    values = dict.fromkeys(INPUTS, "7") | {"dry_run": "true", "verify": "true"}
    with_identity = RUNNER | IDENTITY | {"INPUT_STATE_KEY": "state"}
    without = {"anthropic_api_key": with_identity, "app_id": GIVEN, "app_private_key": GIVEN}
    for name in INPUTS:
        base = with_identity if "anthropic" in name else GIVEN
        changed = base | {f"INPUT_{name.upper()}": values[name]}
        if name in {"app_id", "app_private_key"}:
            with pytest.raises(Misconfigured):
                action(changed)
            continue
        before, after = action(without.get(name, base)), action(changed)
        assert _revealed(before) != _revealed(after), name


def _revealed(given: object) -> str:
    """Show a value with its secrets."""
    from dataclasses import fields, is_dataclass

    from bot.config.settings import Secret

    if isinstance(given, Secret):
        return given.reveal()
    if is_dataclass(given):
        return "|".join(_revealed(getattr(given, each.name)) for each in fields(given))
    return "|".join(map(_revealed, given)) if isinstance(given, tuple) else repr(given)


def test_an_app_outranks_the_jobs_token() -> None:
    """With an App the job's token is not used at all, and the App's key protects what is stored."""
    given = action(GIVEN | {"INPUT_APP_ID": "12", "INPUT_APP_PRIVATE_KEY": "-----BEGIN\\nabc\\n-----END"}).settings
    assert given.github.as_app
    assert not given.github.token
    assert given.github.private_key.reveal().count("\n") == 2
    assert key_of(given) == StateKey(given.github.private_key.reveal().encode())


def test_the_environment_of_others_gives_no_keys() -> None:
    """Keys that earlier steps left in the environment are not taken."""
    others = {"ANTHROPIC_API_KEY": "theirs", "PLANGATE_GITHUB_TOKEN": "theirs", "PLANGATE_STATE_KEY": "theirs"}
    given = action(GIVEN | others)
    assert "theirs" not in _revealed(given)


def test_the_state_key_is_the_api_key_where_there_is_nothing_else() -> None:
    """Nothing outlives a job, so the key cannot be a file that is made on the way."""
    assert key_of(action(GIVEN).settings) == StateKey(b"sk-1")
    own = "a state key of one's own"
    assert key_of(action(GIVEN | {"INPUT_STATE_KEY": own}).settings) == StateKey(own.encode())


def test_workload_identity() -> None:
    """All three parts, the job's proof and a state key make an identity; an API key outranks it."""
    asked = RUNNER | IDENTITY | {"INPUT_STATE_KEY": "s" * 20}
    identity = action(asked).settings.identity
    assert identity is not None
    assert (identity.rule_id, identity.organization_id, identity.service_account_id) == ("fdrl_1", "org", "svac_1")
    assert (identity.request_url, identity.request_token.reveal()) == ("https://id", "proof-token")
    assert action(asked | KEYS).settings.identity is None


WRONG = {
    "no key": (RUNNER, "anthropic_api_key"),
    "identity without its rule": (
        RUNNER | IDENTITY | {"INPUT_ANTHROPIC_FEDERATION_RULE_ID": ""},
        "anthropic_federation_rule_id",
    ),
    "identity without permission": (RUNNER | IDENTITY | {"ACTIONS_ID_TOKEN_REQUEST_URL": ""}, "permissions"),
    "identity without state key": (RUNNER | IDENTITY, "state_key"),
    "half an App": (GIVEN | {"INPUT_APP_ID": "1"}, "app_id, app_private_key"),
    "no amount": (GIVEN | {"INPUT_MAX_COST_USD": "much"}, "max_cost_usd"),
    "no money at all": (GIVEN | {"INPUT_MAX_COST_USD": "0"}, "max_cost_usd"),
    "not a number": (GIVEN | {"INPUT_MAX_COST_USD": "nan"}, "max_cost_usd"),
    "negative": (GIVEN | {"INPUT_APPROVAL_WAIT_MINUTES": "-1"}, "approval_wait_minutes"),
    "no flag": (GIVEN | {"INPUT_DRY_RUN": "yes"}, "dry_run"),
    "no event": (GIVEN | {"GITHUB_EVENT_NAME": ""}, "GITHUB_EVENT_NAME"),
}


@every_row("name", WRONG)
def test_a_wrong_input_is_named(name: str) -> None:
    """The error names the input as the workflow writes it, and how to fix it."""
    environ, where = WRONG[name]
    with pytest.raises(Misconfigured) as raised:
        action(environ)
    assert (raised.value.where, bool(raised.value.fix)) == (where, True)


@pytest.mark.req("PR4")
def test_every_secret_is_known_to_be_masked() -> None:
    """What the inputs hold in secrets is listed for the runner, the App's key as it was given."""
    environ = GIVEN | IDENTITY | {"INPUT_STATE_KEY": "st", "INPUT_APP_ID": "1", "INPUT_APP_PRIVATE_KEY": "pem"}
    listed = {secret.reveal() for secret in action(environ).secrets}
    assert listed == {"sk-1", "ghs_1", "st", "pem", "proof-token"}

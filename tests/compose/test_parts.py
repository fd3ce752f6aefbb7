"""What a configuration makes of the parts that every face needs: gate, network, models, keys."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pydantic import ValidationError

from bot.cli.main import main
from bot.compose.app_set_up import save_app
from bot.compose.parts import configured_model, egress_route_of, gate_of, web_of
from bot.compose.receipts import published_keys
from bot.compose.sweep import sweep
from bot.config.environment import configuration
from bot.config.settings import Secret, Settings
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured, Refused
from bot.core.exchange import CLEAR_AT
from bot.core.network import NetworkDecision
from bot.receipts.envelope import decode_keys
from tests.agent.ground import Silent

ACTION: Final = Path(__file__).parents[2] / "action.yml"


@pytest.mark.req("P1")
def test_bypass_needs_the_sandbox() -> None:
    """bypassPermissions without a sandbox is refused, with the key and the cure; with one it stands."""
    keys = configuration("execution: {mode: bypassPermissions}")
    assert gate_of(keys, sandboxed=True).sandboxed
    with pytest.raises(Misconfigured, match=r"bypassPermissions needs the sandbox.*execution\.mode.*acceptEdits"):
        gate_of(keys, sandboxed=False)


@pytest.mark.req("K3", "P4a")
@pytest.mark.parametrize(
    ("plan", "rehearsed"), (({}, {"make test"}), ({"commands": []}, set()), ({"commands": ["make it"]}, {"make it"}))
)
def test_commands_for_planning(plan: dict[str, list[str]], rehearsed: set[str]) -> None:
    """A planner may run what the file says; where it says nothing, the commands that verify work. Without a sandbox it
    may run none, and its reminder names none."""
    keys = Configuration.model_validate({"plan": plan, "execution": {"verify": ["make test"]}})
    assert gate_of(keys, sandboxed=True).rehearsed == rehearsed
    assert gate_of(keys, sandboxed=False).rehearsed == set()


def test_a_chosen_model_does_what_its_descriptions_say(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line's help and the Action's input name just the keys that it outranks."""
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    _, described = ACTION.read_text().split("  model:\n")
    for said in (capsys.readouterr().out, described.split("\n", 1)[0]):
        assert "instead of models.main and models.subagent;" in " ".join(said.split())


@pytest.mark.req("C2")
def test_when_old_results_are_cleared() -> None:
    """The size is that of the file."""
    assert configured_model(configuration(""), Silent()).clear_at == CLEAR_AT
    assert configured_model(configuration("compaction:\n  clear_at_tokens: 50000\n"), Silent()).clear_at == 50_000


HOSTS = {"hosts": ["docs.example.org", "pastebin.com"]}


def keys(allow: list[str]) -> Configuration:
    return Configuration.model_validate({"tools": {"allow": allow}, "sandbox": HOSTS})


@pytest.mark.req("N1")
@pytest.mark.parametrize(
    ("allow", "closed"),
    (
        (["WebFetch(domain:files.example.org)"], ("docs.example.org", "pastebin.com")),
        (["WebFetch"], ("files.example.org", "pastebin.com")),
        (["WebFetch(domain:*)"], ("files.example.org", "pastebin.com")),
    ),
)
async def test_what_rules_do_not_open_stays_closed(allow: list[str], closed: tuple[str, ...]) -> None:
    """Refused without a question to any name server; a rule without a host opens no host that anybody can write to."""
    web = web_of(keys(allow), Settings())
    assert web is not None
    for host in (*closed, "api.github.com"):
        told: list[NetworkDecision] = []
        with pytest.raises(Refused, match=r"not on the list|never allowed"):
            await web.fetch(f"https://{host}/", told.append)
        assert [row.allowed for row in told] == [False]


@pytest.mark.req("N1")
def test_no_rule_no_web() -> None:
    """Nothing is open to WebFetch by default, whatever the sandbox may reach."""
    assert web_of(keys(["Bash(ls)"]), Settings()) is None


@pytest.mark.req("N1", "P7")
def test_a_rule_in_another_form_is_refused() -> None:
    """When the configuration is read, with the form that it should have."""
    with pytest.raises(ValidationError, match=r"WebFetch\(domain:NAME\)"):
        keys(["WebFetch(docs.example.org)"])


@pytest.mark.req("N2")
def test_approved_work_never_reaches_the_api_of_github() -> None:
    assert egress_route_of(Settings()).never == ("api.github.com", "api.github.com")


@pytest.mark.req("RC4")
def test_many_who_ask_first_all_get_the_key(tmp_path: Path) -> None:
    """Each may find that the file is to be written, and none finds it half written or gone."""
    with ThreadPoolExecutor(16) as pool:
        for attempt in range(20):
            given = replace(Settings(), data_dir=tmp_path / str(attempt), state_key=Secret("k" * 40))
            lists = [decode_keys(content) for content in pool.map(published_keys, [given] * 16)]
            assert {key.id for keys in lists for key in keys} == {lists[0][0].id}
            assert [file.name for file in given.data_dir.iterdir()] == ["plangate-keys.json"]


def test_a_sweep_of_no_repository(tmp_path: Path) -> None:
    """A name that is none is wrong usage."""
    with pytest.raises(Misconfigured, match="OWNER/REPO"):
        sweep(Settings(data_dir=tmp_path), "hello")


APP = {"PLANGATE_APP_ID": "7", "PLANGATE_PRIVATE_KEY": "-----BEGIN"}


@pytest.mark.req("W4a", "E3")
def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        save_app(tmp_path / "app.json", APP)
    finally:
        os.umask(before)
    assert json.loads((tmp_path / "app.json").read_text()) == APP
    assert (tmp_path / "app.json").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["app.json"]


@pytest.mark.req("W4a", "E3")
@pytest.mark.parametrize("kind", ("file", "link"))
def test_what_is_there_is_kept(tmp_path: Path, kind: str) -> None:
    """Neither a file nor what a link leads to is written."""
    path, target = tmp_path / "app.json", tmp_path / "target"
    target.write_text("theirs")
    if kind == "link":
        path.symlink_to(target)
    else:
        target.rename(path)
    with pytest.raises(FileExistsError):
        save_app(path, APP)
    assert path.read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1 + (kind == "link")

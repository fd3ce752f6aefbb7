"""Approved work that wants out: it reaches what plan and configuration both name, and the journal tells (N1a)."""

import signal

import pytest

from bot.testing.model.reply import call
from tests.stories.conftest import Meet
from tests.stories.ground import FIX, Script, newest, planning_requests, until

LISTED, OTHER = "docs.example.org", "files.example.org"
CONFIGURATION = {".github/plangate.yml": f"sandbox:\n  hosts: ['{LISTED}', '{OTHER}']\n"}
TRY = f"curl -sS https://{OTHER}/ 2>&1"
REACH = call("Bash", command=f"{TRY}; ls /run/plangate")


@pytest.mark.long
@pytest.mark.req("N1a", "N1", "TOOLHOST")
def test_a_host_that_the_plan_does_not_name(meet: Meet) -> None:
    """It stays shut, though the configuration names it; that it was tried stands in the journal. WebFetch is not there
    without a rule."""
    person, model = meet(Script(hosts=(LISTED,), work=(REACH, FIX)))
    person.commit(CONFIGURATION)
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    (ran,) = (result for result in newest(model).all_results if result.name == "Bash")
    assert "403" in ran.text
    assert ran.text.splitlines()[-1] == "egress"
    (journal,) = person.journals()
    (told,) = (entry.body["reached"] for entry in journal if entry.kind == "network")
    assert told == [
        {"host": OTHER, "port": 443, "allowed": False, "reason": "this host is not on the list", "times": 1}
    ]
    assert "WebFetch" not in {tool for request in model.requests for tool in request.tools}


@pytest.mark.long
@pytest.mark.req("N1", "N1a")
def test_no_way_out_without_a_plan_for_it(meet: Meet) -> None:
    """Neither while planning, nor in work whose plan names no host; WebFetch refuses what no rule opens."""
    person, model = meet(Script(work=(REACH, call("WebFetch", url=f"https://{OTHER}/", prompt="x"), FIX)))
    person.commit(
        {
            ".github/plangate.yml": CONFIGURATION[".github/plangate.yml"]
            + "tools:\n  allow: [WebFetch(domain:docs.example.org)]\n"
        }
    )
    ended = person.run("--yes", "--json")
    assert ended.code == 0, ended.err
    ran, fetched = (result for result in newest(model).all_results if result.name in {"Bash", "WebFetch"})
    assert "Could not resolve host" in ran.text
    assert fetched.is_error
    assert fetched.text.startswith("Denied: ")
    assert "WebFetch" in {tool for request in planning_requests(model.requests) for tool in request.tools}


@pytest.mark.long
@pytest.mark.req("PR6", "E3")
def test_a_killed_process_has_told(meet: Meet) -> None:
    """What a command tries is on record while it still runs: whoever is killed then has journaled it."""
    person, _ = meet(Script(hosts=(LISTED,), work=(call("Bash", command=f"{TRY}; sleep 60"), FIX)))
    person.commit(CONFIGURATION)
    with person.start("--yes") as running:
        until(lambda: [entry for journal in person.journals() for entry in journal if entry.kind == "network"], "a row")
        running.send_signal(signal.SIGKILL)
    (journal,) = person.journals()
    (told,) = (entry.body["reached"] for entry in journal if entry.kind == "network")
    assert [(row["host"], row["allowed"], row["times"]) for row in told] == [(OTHER, False, 1)]

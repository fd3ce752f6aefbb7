"""Who brought in the newest version of the configuration: the person behind a standing approval (MT6)."""

import pytest

from bot.core.decision_evidence import ConfigurationChange
from bot.github.tasks import newest_change
from tests.github.conftest import HOME, Ground

PATH = ".github/plangate.yml"


async def newest(ground: Ground) -> ConfigurationChange | None:
    return await newest_change(ground.client, ground.address, PATH)


@pytest.mark.req("MT6", "RC1")
async def test_version_is_of_who_merged_its_pull_request_else_of_who_committed_it(ground: Ground) -> None:
    """Who merged its pull request, whoever wrote it; where there was none, who committed it. Other files do not count.

    Three requests find it.
    """
    assert await newest(ground) is None
    pushed = ground.person("ada").push(HOME, {PATH: "language: English\n"})
    found = await newest(ground)
    assert found is not None
    assert (found.commit, found.actor.login) == (pushed, "ada")
    pushed = ground.person("will").push(HOME, {PATH: "language: German\n"}, branch="german")
    pull = ground.person("will").open_pull(HOME, "German", head="german")
    found = await newest(ground)
    assert found is not None
    assert found.actor.login == "ada"  # it is only proposed
    ground.person("ada").merge(HOME, pull.number)
    ground.person("mia").push(HOME, {"README.md": "More.\n"})
    before = len(ground.github.requests)
    found = await newest(ground)
    assert found is not None
    assert (found.commit, found.actor.login) == (pushed, "ada")
    assert len(ground.github.requests) == before + 3


@pytest.mark.req("MT6", "RC1")
async def test_merge_to_another_branch_brings_nothing_in(ground: Ground) -> None:
    person = ground.person
    person("will").push(HOME, {PATH: "language: English\n"}, branch="topic")
    person("ada").push(HOME, {"README.md": "More.\n"}, branch="dev")
    collected = person("will").open_pull(HOME, "Collect", head="topic", base="dev")
    person("will").merge(HOME, collected.number)
    proposed = person("mia").open_pull(HOME, "Propose", head="dev")
    person("ada").merge(HOME, proposed.number)
    found = await newest(ground)
    assert found is not None
    assert found.actor.login == "ada"

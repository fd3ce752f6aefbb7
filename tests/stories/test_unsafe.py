"""Going without a sandbox: for one's own code at one's own machine, said aloud, and nowhere else (D1)."""

from pathlib import Path

import pytest

from tests.stories.conftest import Meet
from tests.stories.ground import Script, only_the_fix
from tests.test_no_sandbox import programs

pytestmark = [pytest.mark.req("D1"), pytest.mark.long]
FLAG = "--unsafe-no-sandbox"


def test_the_whole_way_where_none_can_be_had(meet: Meet, tmp_path: Path) -> None:
    """With the flag a machine without bubblewrap goes all the way, its checks and their copy too, and is warned."""
    (tmp_path / "bin").mkdir()
    path = programs(tmp_path / "bin", blocked=False)
    for name in ("bash", "cp", "chmod", "rm", "cat"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    person, _ = meet(Script(commands=("cat parcel/shipping.py",)), PATH=path)
    ended = person.run("--yes", "--json", FLAG)
    assert ended.code == 0, ended.err
    assert "the model's commands run with your rights" in ended.err
    assert [check["exit_code"] for check in ended.result["checks"]] == [0]
    (branch,) = person.branches()
    assert only_the_fix(person.diff(branch))


def test_not_on_a_thread(meet: Meet) -> None:
    """Where others write, the flag is wrong usage."""
    person, model = meet(Script())
    ended = person.call("run", "octo/hello#7", FLAG)
    assert (ended.code, FLAG in ended.err) == (2, True)
    assert not model.requests

"""`plangate init` gives a project its workflow and configuration, and the doctor says what a workflow lacks."""

import hashlib
import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from bot.cli.doctor import _project
from bot.cli.init import COPY, findings_of_project, write, written_variant
from bot.cli.main import main
from bot.cli.workflow_variant import SWEEP, WORKFLOW, Stamp, Variant, workflow_text
from bot.config.environment import configuration
from bot.config.settings import PATH
from bot.core.configuration import Configuration
from bot.core.errors import Misconfigured


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The top of a repository: all that init asks of it."""
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


def lacking(project: Path) -> tuple[str, ...]:
    """What the project's workflows lack."""
    found = findings_of_project(project)
    assert found is not None
    return found[1]


def test_the_files_are_written_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The workflows are the shipped ones, the configuration changes nothing, and a second time keeps what is there."""
    assert main(["init", str(project)]) == 0
    assert (project / WORKFLOW).read_text() == workflow_text()
    assert (project / SWEEP).read_text() == workflow_text(name=SWEEP)
    assert configuration((project / PATH).read_text()) == Configuration()
    assert YAML(typ="safe").load((project / PATH).read_text()) == {"mention": "@plangate"}  # the schema wants a key
    (project / WORKFLOW).write_text("name: mine")
    assert f"wrote {WORKFLOW}\nwrote {SWEEP}\nwrote {PATH}\nWhat remains:\n1. " in capsys.readouterr().out
    assert main(["init", str(project)]) == 0
    assert (project / WORKFLOW).read_text() == "name: mine"
    said = capsys.readouterr().out
    assert f"kept {WORKFLOW}: its last line is not the one that plangate init writes" in said
    assert f"kept {SWEEP}: it is up to date\nkept {PATH}: it already exists\n" in said


def old(project: Path, name: str = WORKFLOW) -> str:
    """Put the text of an earlier version in place of a workflow, stamped as `init` stamps."""
    body = "name: plangate\non: {workflow_dispatch: }\n"
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    (project / name).write_text(f"{body}# plangate init: version=0.0.1 key_place=repository sha256={digest}\n")
    return (project / name).read_text()


def test_nobodys_edits_are_lost(project: Path) -> None:
    """What nobody edited is updated; edits are kept and told, or replaced on demand, with a copy that is never lost."""
    list(write(project))
    text = old(project)
    assert next(iter(write(project))).startswith(f"updated {WORKFLOW}: nobody had edited it since plangate init 0.0.1")
    assert (project / WORKFLOW).read_text() == workflow_text()
    edited = text.replace("name: plangate", "name: mine")
    (project / WORKFLOW).write_text(edited)
    assert f"kept {WORKFLOW}: somebody has edited it" in next(iter(write(project)))
    assert (project / WORKFLOW).read_text() == edited
    list(write(project, force=True))
    assert (project / f"{WORKFLOW}{COPY}").read_text() == edited
    assert (project / WORKFLOW).read_text() == workflow_text()
    (project / WORKFLOW).write_text("name: other")
    with pytest.raises(Misconfigured, match="copy of an earlier workflow"):
        list(write(project, force=True))
    assert (project / WORKFLOW).read_text() == "name: other"


def test_line_ends_of_a_checkout_are_no_edits(project: Path) -> None:
    """git may turn line ends: the stamp still knows the text."""
    stamp = Stamp.of(workflow_text(Variant(account="acme-helper")).replace("\n", "\r\n"))
    assert stamp is not None
    assert (stamp.edited, stamp.variant) == (False, Variant(account="acme-helper"))


@pytest.mark.parametrize(
    "forged",
    (
        "account=x'||true||'",
        "key_place=nowhere",
        "tag=\\1 commit=main",
        "server=https://a'b/c runner=${{secrets.X}}",
        "version=\x1b[2J",
    ),
)
def test_a_stamp_puts_nothing_into_a_workflow(project: Path, forged: str) -> None:
    """Whoever writes the last line of a workflow, which looks like a comment, adds to no condition of the next one."""
    (project / WORKFLOW).parent.mkdir(parents=True)
    (project / WORKFLOW).write_text(f"{workflow_text().rpartition('# plangate init')[0]}# plangate init: {forged}\n")
    assert written_variant(project) == Variant()
    assert "\x1b" not in "".join(write(project, written_variant(project)))


def test_another_version_is_told(project: Path) -> None:
    """The doctor names the version that wrote a workflow, and that somebody has edited it since."""
    list(write(project))
    assert [(finding.good, finding.optional) for finding in _project(project)] == [(True, True)]
    (project / WORKFLOW).write_text((project / WORKFLOW).read_text().replace("version=0", "version=9.0"))
    (finding,) = _project(project)
    assert (finding.good, finding.optional) == (False, True)
    assert "written by plangate init 9.0" in finding.what
    old(project)
    (finding,) = _project(project)
    assert (finding.good, finding.optional) == (False, False)


def test_each_suggested_setting_is_one(project: Path) -> None:
    """Whoever takes a # away has a valid configuration."""
    list(write(project))
    _, _, settings = (project / PATH).read_text().partition("\n\n")
    taken = configuration("\n".join(line.removeprefix("# ") for line in settings.splitlines()))
    assert taken.execution.verify == ["make test"]
    assert taken.sandbox.hosts == ["pypi.org", "files.pythonhosted.org"]


def test_the_workflow_hears_the_name_of_the_configuration(project: Path) -> None:
    """A bot of another name is listened for by it, as a text of an expression, whatever signs it has."""
    (project / ".github").mkdir()
    (project / PATH).write_text('mention: "@o\'bot"\n')
    list(write(project))
    text = (project / WORKFLOW).read_text()
    assert "'@o''bot'" in text
    assert "'/o''bot'" in text
    assert "contains(github.event.comment.body, 'stop')" in text
    assert "'@plangate" not in text
    assert "assignee.login == 'o''bot'" in text
    assert "label.name == 'plangate'" in text
    assert lacking(project) == ()


def test_what_a_workflow_lacks_is_named(project: Path) -> None:
    """A pinned action and another schedule are a project's own; a missing environment or permission is told."""
    list(write(project))
    path = project / WORKFLOW
    path.write_text(path.read_text().replace("plangate@v1", "plangate@0123abcd").replace("23 4 * * *", "0 * * * *"))
    sweep = project / SWEEP
    sweep.write_text(sweep.read_text().replace("7 */3 * * *", "*/30 * * * *"))
    assert [finding.good for finding in _project(project)] == [True]
    path.write_text(
        path.read_text()
        .replace("environment: {", "surroundings: {", 1)
        .replace("checks: read", "checks: none")
        .replace("checks: write", "checks: none")
    )
    sweep.write_text(sweep.read_text().replace("actions: write", "actions: read"))
    missing = (
        "jobs.listen.environment",
        "jobs.listen.permissions.checks",
        "jobs.work.permissions.checks",
        f"{SWEEP}: jobs.sweep.permissions.actions",
    )
    assert lacking(project) == missing
    (finding,) = _project(project)
    assert finding.what.endswith(f", edited since; missing or different keys: {', '.join(missing)}")
    sweep.unlink()
    assert lacking(project)[-1] == SWEEP


def test_a_workflow_that_creates_no_check_run(project: Path) -> None:
    """It works as ever: the doctor names the permission that is missing, and says that nothing needs it."""
    list(write(project))
    path = project / WORKFLOW
    path.write_text(path.read_text().replace("checks: write", "checks: read"))
    assert lacking(project) == ()
    whole, optional = _project(project)
    assert whole.good
    assert (optional.good, optional.optional) == (False, True)
    assert (optional.what, optional.cure) == (
        f'workflow: {WORKFLOW} does not let the job create the check run "Plan approved"',
        "grant checks: write to the job work (docs/tokens.md)",
    )


@pytest.mark.parametrize(
    ("token", "told"), (("secrets.HELPER", True), ("github.token", False), ("secrets.GITHUB_TOKEN", False))
)
def test_a_token_that_wakes_the_bot(project: Path, token: str, told: bool) -> None:
    """A token that somebody put in by hand, without the name of its account: the doctor says what that costs."""
    list(write(project))
    path = project / WORKFLOW
    key = "          anthropic_api_key: ${{ secrets.ANTHROPIC_API_KEY }}\n"
    path.write_text(path.read_text().replace(key, f"{key}          github_token: ${{{{ {token} }}}}\n"))
    found = [each.cure for each in _project(project) if "starts a job" in each.what]
    assert found == ["name the account: plangate init --force --account LOGIN"] * told
    list(write(project, Variant(account="acme-helper"), force=True))
    assert not [each for each in _project(project) if "starts a job" in each.what]


def test_receipts_that_github_attests(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The publishing job alone gets the permissions and the step; a later `init` keeps them until it is told otherwise;
    on GitHub Enterprise Server there are no attestations."""
    assert main(["init", str(project), "--attest"]) == 0
    for name, job in ((WORKFLOW, "work"), (SWEEP, "sweep")):
        for each, held in YAML(typ="safe").load((project / name).read_text())["jobs"].items():
            rights = {right for right in ("id-token", "attestations") if held["permissions"].get(right) == "write"}
            assert rights == ({"id-token", "attestations"} if each == job else set())
            assert ("predicate-path" in str(held["steps"])) == (each == job)
    assert lacking(project) == ()
    assert main(["init", str(project)]) == 0
    assert "up to date" in capsys.readouterr().out
    path = project / WORKFLOW
    path.write_text(path.read_text().replace("      attestations: write", "      # attestations: write"))
    assert lacking(project) == ("jobs.work.permissions.attestations",)
    path.unlink()
    assert main(["init", str(project), "--no-attest", "--force"]) == 0
    assert "attest" not in (project / WORKFLOW).read_text().rpartition("\n# ")[0]
    assert main(["init", str(project), "--attest", "--server", "https://git.acme.example"]) == 2
    assert "GitHub Enterprise Server has no attestations" in capsys.readouterr().err


def test_a_secret_of_the_repository(project: Path) -> None:
    """Where there are no environments the workflows name none, and say what that means; the doctor takes the choice."""
    assert main(["init", str(project), "--secret", "repository"]) == 0
    for name in (WORKFLOW, SWEEP):
        for job in YAML(typ="safe").load((project / name).read_text())["jobs"].values():
            assert "environment" not in job
    assert "private repositories have none" in (project / WORKFLOW).read_text()
    assert lacking(project) == ()
    path = project / WORKFLOW
    path.write_text(path.read_text().replace("checks: read", "checks: none").replace("checks: write", "checks: none"))
    assert lacking(project) == ("jobs.listen.permissions.checks", "jobs.work.permissions.checks")


def test_a_project_without_a_workflow_is_not_spoken_of(project: Path) -> None:
    """The doctor has nothing to say where no Action is wanted."""
    assert list(_project(project)) == []


@pytest.mark.parametrize(
    ("spoilt", "content", "said"),
    (
        (WORKFLOW, "a: [", f"{WORKFLOW}: not YAML"),
        (PATH, "menton: x", f"{PATH}:1:1: unknown key 'menton'"),
        (WORKFLOW, "- 1", f"workflow: {WORKFLOW}, not written by this version"),
        (SWEEP, "a: [", f"{SWEEP}: not YAML"),
    ),
    ids=["no YAML", "unknown key", "a list", "no YAML in the sweep"],
)
def test_the_doctor_tells_a_mistake_with_its_place(project: Path, spoilt: str, content: str, said: str) -> None:
    """A file that cannot be taken is a finding with its cure."""
    list(write(project))
    (project / spoilt).write_text(content)
    (finding,) = _project(project)
    assert not finding.good
    assert finding.what.startswith(said)
    assert finding.cure


def test_what_cannot_be_written_is_refused(project: Path, tmp_path: Path) -> None:
    """No repository, a link that leads out of it, a folder where the file belongs: one line, and nothing is written."""
    with pytest.raises(Misconfigured, match="not the top of a git repository"):
        list(write(tmp_path))
    (project / ".github").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(Misconfigured, match="leads out of the project"):
        list(write(project))
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (project / ".github").unlink()
    (project / WORKFLOW).mkdir(parents=True)
    with pytest.raises(Misconfigured, match="this is not a regular file"):
        list(write(project))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", (WORKFLOW, SWEEP, PATH))
def test_a_pipe_is_not_waited_for(project: Path, name: str) -> None:
    """Neither `doctor` nor `init` opens what is no file: the doctor says which one it is."""
    list(write(project))
    (project / name).unlink()
    os.mkfifo(project / name)
    with pytest.raises(Misconfigured, match="this is not a regular file") as caught:
        lacking(project)
    assert caught.value.where == name

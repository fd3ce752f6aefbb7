"""action.yml and the workflows: what the vendor's schemas and the auditor say, and that inputs and program agree."""

import copy
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bot.action.report import OUTPUTS
from bot.cli.workflow_variant import SHIPPED, WORKFLOW, Variant, workflow_text
from bot.cli.workflow_variant import SWEEP as SWEEP_NAME
from bot.config.action_inputs import INPUTS
from tests.action.jobs import OPEN, loaded, pull, review, started

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
CONSUMER = ROOT / "bot/cli/workflow.yml"
OWN = ROOT / ".github/workflows/plangate.yml"
SWEEP = ROOT / "bot/cli/sweep.yml"
OWN_SWEEP = ROOT / ".github/workflows/plangate-sweep.yml"
WORKFLOWS = (CONSUMER, OWN, SWEEP, OWN_SWEEP)
OURS = tuple(ROOT / f".github/workflows/{name}.yml" for name in ("ci", "release"))
"""Workflows of this repository alone."""
BIN = Path(sys.executable).parent


def checked(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What `doctor --live` commits."""
    folder = tmp_path_factory.mktemp("experiments") / ".github/workflows"
    folder.mkdir(parents=True)
    for source in ("experiments.yml", "switch.yml"):
        text = (ROOT / "bot/compose/live" / source).read_text().replace("@ISSUE@", "1")
        (folder / source).write_text(text)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every workflow that `init` can write, each set in a project of its own."""
    pins: tuple[dict[str, str], ...] = ({}, {"tag": "v1.2.3", "commit": "0123456789abcdef0123456789abcdef01234567"})
    enterprise = {"server": "https://git.acme.example", "runner": "self-hosted"}
    servers: tuple[dict[str, str], ...] = ({}, {"attest": "true"}, enterprise)
    choices = product(("environment", "repository"), ("", "acme-helper"), pins, servers)
    written = []
    for place, account, pin, server in choices:
        project = tmp_path_factory.mktemp("project")
        variant = Variant("@o'bot", account, place, **pin, **server)
        for name in SHIPPED:
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(workflow_text(variant, name))
            written.append(path)
    return written


def test_the_vendors_schemas_hold(variants: list[Path], experiments: list[Path]) -> None:
    """GitHub would load the action, each workflow, and each that `init` can write."""
    assert (len(variants), len(experiments)) == (48, 2)
    checked(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION)
    workflows = (*WORKFLOWS, *OURS, *experiments, *variants)
    checked(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows)


def test_the_auditor_finds_nothing(variants: list[Path], experiments: list[Path]) -> None:
    """No injection, no excess permission, no unpinned action, but for what says why at its line.

    That holds also where keys are the repository's, on another server, and pinned.
    """
    every = (ACTION, *WORKFLOWS, *OURS, *experiments, *variants)
    checked(BIN / "zizmor", "--offline", "--no-progress", "--persona", "auditor", *every)


def test_what_each_variant_changes() -> None:
    """Each line that a variant replaces is there to be replaced, in every job that it concerns."""
    for name, uses in ((WORKFLOW, 2), (SWEEP_NAME, 1)):
        pinned = workflow_text(Variant(tag="v1.2.3", commit="a" * 40), name)
        assert pinned.count(f"uses: plangate/plangate@{'a' * 40} # v1.2.3\n") == pinned.count("uses:") == uses
        enterprise = workflow_text(Variant(server="https://git.acme.example", runner="big"), name)
        for key in ("queue", "deployment", "ubuntu", "GH_TOKEN"):
            assert key not in enterprise, key
        assert enterprise.count("    environment: plangate\n") == uses
        own = workflow_text(Variant(account="acme-helper"), name)
        assert own.count("github_token: ${{ secrets.PLANGATE_TOKEN }}\n") == uses
        attesting = workflow_text(Variant(attest="true", account="acme-helper"), name)
        assert attesting.count("        id: plangate\n") == 1
        assert attesting.count("predicate-path: ${{ steps.plangate.outputs.predicate }}\n") == 1
        bigger = workflow_text(Variant(runner="big"), name)
        assert bigger.count("    runs-on: big\n") == bigger.count("runs-on:")
    enterprise = workflow_text(Variant(server="https://git.acme.example"))
    assert "GH_ENTERPRISE_TOKEN: ${{ github.token }}\n          GH_HOST: git.acme.example\n" in enterprise


def test_the_scripts_are_well_formed() -> None:
    """The shell can read them."""
    for name in ("action.sh", "archive.sh", "environment.sh", "release.sh", "sandbox.sh"):
        checked("bash", "-n", ROOT / ".github" / name)


def test_every_input_reaches_the_program() -> None:
    """Inputs of action.yml, variables of the working step, and what the program reads are the same."""
    manifest = loaded(ACTION)
    step = manifest["runs"]["steps"][-1]
    variables = {name: value for name, value in step["env"].items() if name.startswith("INPUT_")}
    assert set(manifest["inputs"]) == set(INPUTS)
    assert variables == {f"INPUT_{name.upper()}": f"${{{{ inputs.{name} }}}}" for name in INPUTS}


def test_every_output_comes_from_the_program() -> None:
    """Outputs of action.yml are those that the program writes."""
    manifest = loaded(ACTION)
    step = manifest["runs"]["steps"][-1]["id"]
    values = {name: each["value"] for name, each in manifest["outputs"].items()}
    assert values == {name: f"${{{{ steps.{step}.outputs.{name} }}}}" for name in OUTPUTS}


def test_every_output_is_documented() -> None:
    """The page for users has a row for it."""
    rows = [line for line in (ROOT / "docs/action.md").read_text().splitlines() if line.startswith("| `")]
    assert [name for name in OUTPUTS if not any(f"`{name}`" in row for row in rows)] == []


def test_no_script_holds_an_expression() -> None:
    """Values of events and inputs reach scripts as variables alone."""
    for path in (ACTION, *WORKFLOWS, *OURS):
        for script in re.findall(r"^\s+(?:- )?run: *(.*(?:\n {8,}.*)*)", path.read_text(), re.MULTILINE):
            assert "${{" not in script, path


def test_the_program_starts_isolated() -> None:
    """The console script with -I, from the program's own folder, with an emptied Python environment."""
    script = loaded(ACTION)["runs"]["steps"][-1]["run"].strip().splitlines()
    assert script[0] == '. "$GITHUB_ACTION_PATH/.github/environment.sh"'
    assert script[-2] == 'cd "$PLANGATE_HOME"'
    assert script[-1].startswith('exec "$PLANGATE_HOME/venv/bin/python" -I "$PLANGATE_HOME/venv/bin/plangate"')


@pytest.mark.req("PR4")
@pytest.mark.parametrize("step", (0, 1, 2), ids=("acknowledge", "set up", "work"))
def test_no_earlier_step_chooses_libraries(step: int, tmp_path: Path) -> None:
    """What a step wrote to GITHUB_ENV makes neither the shell nor what it starts load or run anything of theirs."""
    for name in ("libc.so.6", "evil.so", "evil.sh"):
        (tmp_path / name).write_text("exit 9")
    script = tmp_path / "script.sh"
    script.write_text("env true")
    theirs = {"LD_PRELOAD": "evil.so", "LD_AUDIT": "evil.so", "BASH_ENV": "evil.sh", "LD_LIBRARY_PATH": ""}
    hostile = {name: f"{tmp_path}/{value}" for name, value in theirs.items()}
    hostile |= {"BASH_FUNC_env%%": "() { exit 9; }", "SHELLOPTS": "xtrace", "PS4": "$(exit 9)"}
    ours = loaded(ACTION)["runs"]["steps"][step]
    environment = {"PATH": os.environ["PATH"], **hostile, **ours["env"]}
    command = ours["shell"].format(script).split()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_last_jobs_of_a_release_may_write() -> None:
    """What runs the tests and the builds reads the source; every other action is pinned by its commit.

    The job that pushes the image cannot touch the repository, and runs after the one that a reviewer lets in.
    """
    release = loaded(ROOT / ".github/workflows/release.yml")
    rights = {name: job["permissions"] for name, job in release["jobs"].items()}
    attesting = {"id-token": "write", "attestations": "write"}
    assert rights.pop("publish") == {"contents": "write", **attesting}
    assert rights.pop("publish_image") == {"contents": "read", "packages": "write", **attesting}
    assert all(each == {"contents": "read"} for each in rights.values())
    assert release["jobs"]["publish"]["environment"] == "release"
    assert release["jobs"]["publish_image"]["needs"] == ["publish"]
    assert set(release["jobs"]["publish"]["needs"]) == {"test", "build", "archive", "image"}
    used = [step["uses"] for job in release["jobs"].values() for step in job.get("steps", ()) if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", each) for each in used)


@pytest.mark.parametrize("path", WORKFLOWS, ids=["consumer", "own", "sweep", "own sweep"])
def test_secrets_reach_the_default_branch_alone(path: Path) -> None:
    """A job that reads secrets is in the environment and runs for no event of a pull request's own ref (A4)."""
    for name, job in loaded(path)["jobs"].items():
        if "secrets." in str(job):
            assert job["environment"] == {"name": "plangate", "deployment": False}, name
            for event in ("pull_request", "pull_request_review"):
                assert name not in started(loaded(path), event, review(pull(labels=[OPEN]), "@plangate"))
                assert name not in started(loaded(path), event, review(pull(labels=[OPEN]), action="opened"))
        assert "checkout" not in str(job) or "default_branch" in str(job["steps"][0]["with"]["ref"])


def test_nothing_of_other_runs_is_taken(variants: list[Path]) -> None:
    """No cache, no artifact, no trigger that lends rights to a pull request, and no code but the bot's own."""
    triggers = {"issues", "issue_comment", "pull_request", "pull_request_review", "schedule", "workflow_dispatch"}
    for path in (*WORKFLOWS, *variants):
        workflow = loaded(path)
        assert set(workflow["on"]) <= triggers, path
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        used = {step["uses"].partition("@")[0] for step in steps if "uses" in step}
        assert used <= {"plangate/plangate", "./", "actions/checkout", "actions/attest"}, path
        for job in workflow["jobs"].values():
            scripts = [step for step in job["steps"] if "run" in step]
            assert not (scripts and "secrets." in str(job)), path
    assert not [step for step in loaded(ACTION)["runs"]["steps"] if "uses" in step]


@pytest.mark.parametrize("path", (CONSUMER, OWN), ids=["consumer", "own"])
def test_no_turn_is_dropped_and_stop_is_heard(path: Path) -> None:
    """Work on one thread queues without end; words are taken in beside it, by a job that never waits for it."""
    jobs = loaded(path)["jobs"]
    assert jobs["work"]["concurrency"]["queue"] == "max"
    assert "github.event.issue.number" in jobs["work"]["concurrency"]["group"]
    assert jobs["listen"]["concurrency"]["group"].endswith("${{ github.run_id }}")
    assert jobs["listen"]["env"] == {"PLANGATE_ONLY_LISTEN": "true"}
    assert not [name for name, job in jobs.items() if "needs" in job]


def test_only_work_needs_a_large_runner() -> None:
    """Jobs without a sandbox run on one core, within the 15 minutes that such a runner has.

    https://docs.github.com/en/actions/reference/runners/github-hosted-runners
    """
    for path in WORKFLOWS:
        for name, job in loaded(path)["jobs"].items():
            slim = name in {"hand_on", "listen"}
            assert job["runs-on"] == ("ubuntu-slim" if slim else "ubuntu-24.04"), name
            assert not slim or job["timeout-minutes"] < 15


@pytest.mark.parametrize(("theirs", "ours"), ((CONSUMER, OWN), (SWEEP, OWN_SWEEP)), ids=["main", "sweep"])
def test_the_two_workflows_are_one(theirs: Any, ours: Any) -> None:
    """The bot's own repository uses what everybody copies, but for where the program comes from."""
    theirs, ours = copy.deepcopy((loaded(theirs), loaded(ours)))
    for workflow in (theirs, ours):
        for job in workflow["jobs"].values():
            job["steps"] = [step for step in job["steps"] if "checkout" not in step.get("uses", "")]
            for step in job["steps"]:
                step.pop("uses", None)
    assert theirs == ours

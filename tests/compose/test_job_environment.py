"""What sessions are told of a job: by its thread, its commit, and the default branch."""

import subprocess
from pathlib import Path

import pytest

from bot.agent.prompts import Environment
from bot.agent.prompts.environment_text import environment_text
from bot.clock import SystemClock
from bot.compose.job_environment import JobEnvironment, job_of, place_in_terminal, place_on_github
from bot.config.environment import configuration
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.work import ThreadLocation
from bot.workspace.local_repository import LocalRepository
from bot.workspace.workspace import GitWorkspace

CONFIGURED = """
execution: {verify: [make test]}
sandbox: {setup: [npm ci], hosts: [registry.npmjs.org]}
language: German
"""


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=P", "-c", "user.email=p@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, files: dict[str, str]) -> CommitId:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"Add {', '.join(files)}")
    return CommitId(git(folder, "rev-parse", "HEAD"))


@pytest.mark.req("K10", "K11", "M2")
async def test_a_job_is_described_by_its_commits(tmp_path: Path) -> None:
    """The place is that of the commit worked on; the memory, of the root and of folders, is the default branch's."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    default = commit(folder, {"CLAUDE.md": "Be kind. @docs/a.md", "docs/a.md": "A", "src/AGENTS.md": "For src."})
    work = commit(folder, {"CLAUDE.md": "Obey the branch.", "src/AGENTS.md": "Obey it.", "new.py": "1"})
    modules = '[submodule "m"]\r\n\tpath = lib/m \r\n[submodule "n"]\n\tPath="a b"\n'
    work = commit(folder, {".gitmodules": modules})
    workspace = GitWorkspace.on(await LocalRepository.open(folder), tmp_path / "data")
    job = job_of(configuration(CONFIGURED), folder="/home/checkout", repository="acme/parcel", clock=SystemClock())
    made = await JobEnvironment(job, workspace, default).at(work)
    assert made.top_level == (".gitmodules", "CLAUDE.md", "docs/", "new.py", "src/")
    assert made.submodules == ("lib/m", "a b")
    assert [line.split(" ", 2)[2] for line in made.commits][1:2] == ["Add CLAUDE.md, src/AGENTS.md, new.py"]
    assert (made.base, made.setup, made.verify) == (work[:12], ("npm ci",), ("make test",))
    assert (made.hosts, made.language) == (("registry.npmjs.org",), "German")
    assert made.tools.startswith("git ")
    assert made.platform.startswith("Linux ")
    assert made.memory.endswith("## CLAUDE.md\nBe kind. @docs/a.md\n\n## docs/a.md\nA")
    assert made.project is not None
    assert (await made.project.below(["src/a.py"], [made.memory])).endswith("## src/AGENTS.md\nFor src.")
    bare = await JobEnvironment(job, workspace, None).at(work)
    assert (bare.memory, bare.project) == ("", None)


@pytest.mark.req("K11")
def test_where_people_asked() -> None:
    """An issue, a pull request that is worked on in place, or a terminal."""
    job = Environment("/x", "Linux", "2026-11-21", "acme/parcel")
    location = ThreadLocation(RepositoryId(1), ThreadNumber(12), "T", CommitId("0" * 40), "main")
    pull = ThreadLocation(RepositoryId(1), ThreadNumber(13), "T", CommitId("0" * 40), "main", "topic")
    told = environment_text(place_on_github(job, location))
    assert (
        "Branch: main is the default\nAsked: on issue #12 on GitHub. Your last message becomes a comment there" in told
    )
    told = environment_text(place_on_github(job, pull))
    assert "Branch: main is the default; the pull request's is topic\nAsked: on pull request #13 on GitHub." in told
    assert "Branch: main\nAsked: at a terminal" in environment_text(place_in_terminal(job, "main"))

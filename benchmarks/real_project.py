"""A real project and a real bug: `plangate run` turns Markdown 3.8 into 3.8.1 with a scripted model.

The sources come from the configured package index, pinned by hash, and are deleted afterwards. The release's own edits
fix the three bugs of that release (its change log: #1526, #1528, #1534). The release's own tests, run by unittest, fail
before and pass after. Run it by hand or with `make soak`: ``python benchmarks/real_project.py``.
"""

import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bot.testing.model.reply import Fault, Reply, call, say, several
from bot.testing.model.request_view import ModelRequest
from bot.testing.model.server import ScriptedModel

NAME: Final = "markdown"
SOURCES: Final = {
    "3.8": "7df81e63f0df5c4b24b7d156eb81e4690595239b7d70937d0409f1b0de319c6f",
    "3.8.1": "a2e2f01cead4828ee74ecca9623045f62216aef2212a7685d6eb9163f590b8c1",
}
"""Version -> sha256 of its source distribution."""
TESTS: Final = (
    "python3 -m unittest -q tests.test_syntax.blocks.test_html_blocks tests.test_syntax.extensions.test_md_in_html "
    "tests.test_syntax.inline.test_code tests.test_syntax.inline.test_raw_html"
)
REQUEST: Final = (
    "Incomplete declarations in raw HTML crash the parser, md_in_html drops content after a block, and `</>` vanishes. "
    "Please fix all three, with tests."
)
PLAN: Final = "Handle incomplete declarations, the rest of a block, and `</>` as text; the tests of each come first."
CONTEXT: Final = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One file that the release changes: its text before and after."""

    path: str
    before: str
    after: str

    def edits(self) -> Iterator[Reply]:
        """Yield one Edit per hunk. Each old text occurs exactly once."""
        old, new = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
            start, begin = group[0][1], group[0][3]
            found, made = "".join(old[start : group[-1][2]]), "".join(new[begin : group[-1][4]])
            while self.before.count(found) > 1:
                start, begin = start - 1, begin - 1
                found, made = old[start] + found, new[begin] + made
            yield call("Edit", file_path=self.path, old_string=found, new_string=made)


@dataclass(frozen=True, slots=True)
class Play:
    """The model's script: explore in parallel, plan, add the tests, see them fail, fix the code, see them pass."""

    changes: Sequence[Change]

    def __call__(self, request: ModelRequest) -> Reply | Fault:
        """Return the reply of the main agent or of the asking explorer."""
        if not request.tools:
            return say("Parse incomplete declarations as text")
        steps = self._exploring() if "sub-agent that explores" in request.system else self._main()
        return steps[request.step]

    def _main(self) -> list[Reply]:
        tests = [change for change in self.changes if change.path.startswith("tests/")]
        code = [change for change in self.changes if change not in tests]
        return [
            several(
                _explore("Find the parsers", "Find where raw HTML is parsed."),
                _explore("Find tests", "Find its tests."),
            ),
            call("exit_plan_mode", plan=PLAN, scope=[change.path for change in self.changes], commands=[TESTS]),
            several(*(call("Read", file_path=change.path, limit=20) for change in self.changes)),
            *(edit for change in tests for edit in change.edits()),
            call("Bash", command=TESTS),
            *(edit for change in code for edit in change.edits()),
            call("Bash", command=TESTS),
            say("All three are fixed, as the tests show."),
        ]

    def _exploring(self) -> list[Reply]:
        return [
            several(call("Grep", pattern="parse_html_declaration", output_mode="content"), call("LS", path="markdown")),
            several(call("Read", file_path="markdown/htmlparser.py"), call("Glob", pattern="tests/**/*html*.py")),
            say("`markdown/htmlparser.py` and `markdown/extensions/md_in_html.py`; tests are in `tests/test_syntax`."),
        ]


def main() -> int:
    """Run the scenario, print the measurements, and return 0. Ends with an error if a claim above does not hold."""
    with tempfile.TemporaryDirectory(prefix="plangate-real-") as kept:
        folder = Path(kept).resolve()
        before, after = (_download(folder, version) for version in SOURCES)
        changes = _changes(before, after)
        _commit(before)
        untouched = _person(before)
        with ScriptedModel(Play(changes)) as model:
            began = time.monotonic()
            result = _run(before, folder, model.base_url)
            seconds = time.monotonic() - began
            outputs = _test_runs(model.requests)
        _hold(not model.refusals, f"the service refused a request: {model.refusals}")
        _proven(before, result, changes)
        _hold([failed for failed, _ in outputs] == [True, False], f"the tests do not tell the story: {outputs}")
        _hold(_person(before) == untouched, "the person's files, index or HEAD have changed")
        _print(before, result, changes, seconds=seconds, requests=len(model.requests))
    return 0


def _download(folder: Path, version: str) -> Path:
    """Download and unpack one version. Refuse any file that does not have the pinned hash."""
    wanted = folder / f"{version}.txt"
    wanted.write_text(f"{NAME}=={version} --hash=sha256:{SOURCES[version]}\n")
    into = folder / version
    options = ("download", "--quiet", "--no-deps", "--no-binary", NAME, "--require-hashes", "--dest", str(into))
    subprocess.run([*_pip(), *options, "--requirement", str(wanted)], check=True)
    (archive,) = into.glob("*.tar.gz")
    _hold(hashlib.sha256(archive.read_bytes()).hexdigest() == SOURCES[version], f"{archive.name} is another file")
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
    archive.unlink()
    (project,) = into.iterdir()
    return project


def _pip() -> list[str]:
    """Return the command of a pip: this environment's, the machine's, or the one that uv provides."""
    for command in ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["uv", "tool", "run", "pip"]):
        if not shutil.which(command[0]):
            continue
        if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0:
            return command
    raise SystemExit("real_project: there is no pip; install one")


def _changes(before: Path, after: Path) -> list[Change]:
    """Return the code and test files that the release changed, except its version number."""
    files = sorted(path for part in ("markdown", "tests") for path in (after / part).rglob("*.py"))
    found = []
    for path in files:
        name = str(path.relative_to(after))
        old, new = (before / name).read_text(), path.read_text()
        if old != new and name != "markdown/__meta__.py":
            found.append(Change(name, old, new))
    return found


def _commit(project: Path) -> None:
    """Create a repository of the old version."""
    _git(project, "init", "--quiet", "--initial-branch=main")
    _git(project, "add", "--all", "--force")
    _git(project, "commit", "--quiet", "--message=Markdown 3.8")


def _run(project: Path, folder: Path, base_url: str) -> Mapping[str, Any]:
    """Run the console script on the project and return its --json output."""
    program = Path(sys.executable).with_name("plangate")
    variables = {"ANTHROPIC_API_KEY": "simulated", "ANTHROPIC_BASE_URL": base_url}
    places = {"PLANGATE_DATA_DIR": str(folder / "data"), "HOME": str(folder), "PATH": os.environ["PATH"]}
    command = [str(program), "run", "--repo", str(project), "--prompt", REQUEST, "--yes", "--json"]
    done = subprocess.run(command, env={**variables, **places}, capture_output=True, text=True, check=False)
    _hold(done.returncode == 0, done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _test_runs(requests: Sequence[ModelRequest]) -> list[tuple[bool, str]]:
    """Return the model's view of each test run: whether it failed, and the end of its output."""
    whole = max(requests, key=lambda request: request.step)
    runs = [result.text for result in whole.all_results if result.name == "Bash"]
    return [("FAILED (" in text, text[-80:]) for text in runs]


def _proven(project: Path, result: Mapping[str, Any], changes: Sequence[Change]) -> None:
    """Check that the branch contains exactly the fix, and that its check passed."""
    branch = str(result["branch"])
    changed = _git(project, "diff", "--name-only", "main", branch).split()
    _hold(changed == [change.path for change in changes], f"other files have changed: {changed}")
    for change in changes:
        _hold(_git(project, "show", f"{branch}:{change.path}") == change.after, f"{change.path} is not as released")
    checks = [(check["command"], check["exit_code"]) for check in result["checks"]]
    _hold(checks == [(TESTS, 0)], f"the plan's check did not pass: {checks}")


def _person(project: Path) -> dict[str, str]:
    """Return the hashes of the person's files, index, HEAD, and config."""
    files = (path for path in project.rglob("*") if path.is_file() and ".git" not in path.relative_to(project).parts)
    mine = [*sorted(files), project / ".git/index", project / ".git/HEAD", project / ".git/config"]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in mine}


def _print(
    project: Path, result: Mapping[str, Any], changes: Sequence[Change], *, seconds: float, requests: int
) -> None:
    """Print the measurements."""
    lines = sum(len(path.read_text().splitlines()) for path in project.rglob("*.py"))
    used = result["usage"]
    hunks = sum(len(list(change.edits())) for change in changes)
    cached = used["cache_read"] / max(1, used["input"] + used["cache_read"] + used["cache_write"])
    print(f"project      {NAME} 3.8 -> 3.8.1, {lines:,} lines of Python")
    print(f"fix          {len(changes)} files, {hunks} edits; tests failed before and pass after")
    print(f"requests     {requests} ({result['steps']} steps, {len(result['subagents'])} sub-agents)")
    print(f"tokens       {used['output']:,} out, {cached:.0%} of the input from the cache, ${result['cost_usd']:.4f}")
    print(f"seconds      {seconds:.1f}, {seconds / requests:.2f} for each request")


def _hold(true: object, claim: str) -> None:
    """Exit with the claim if it does not hold."""
    if not true:
        raise SystemExit(f"real_project: {claim}")


def _explore(description: str, prompt: str) -> Reply:
    return call("Task", subagent_type="explore", description=description, prompt=prompt)


def _git(project: Path, *arguments: str) -> str:
    person = ("-c", "user.name=P", "-c", "user.email=p@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(project), *person, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

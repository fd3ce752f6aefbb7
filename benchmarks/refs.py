"""The cost of a story in git with many refs: requests, bytes, and pushes, from the mention to the pull request.

It measures counts and bytes, not times: the simulated GitHub records each request and the size of its answer. Pull
requests' refs are hidden from pushes, as GitHub hides them; branches are not hidden, and each push lists them all (git
has no other way).
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.compose.github import HostSetup
from bot.core.gate import Stage
from bot.testing.github.faults import Logged
from bot.testing.github.simulated_github import SimulatedGitHub
from bot.testing.model.server import ScriptedModel
from tests.stories.github.clocks import QuickClock
from tests.stories.github.ground import HOME, Model, Story, settings, settle

CASES = (("an empty past", 0, 0, 1), ("30,000 pull requests", 30_000, 0, 1), ("1,000 branches", 0, 1_000, 1),
         ("4 threads at once", 30_000, 0, 4))  # fmt: skip
_GIT = f"/{HOME}.git/"


def _kind(logged: Logged) -> str:
    """Return the purpose of a git request, or "" for a request that is not git's."""
    if not logged.path.startswith(_GIT):
        return ""
    if logged.path.endswith("git-receive-pack"):
        return "pushes"
    if "git-receive-pack" in logged.query:
        return "push lists"
    if b"command=ls-refs" in logged.body:
        return "listings"
    return "fetches" if b"command=fetch" in logged.body else "greetings"


async def _play(folder: Path, pulls: int, branches: int, threads: int) -> Sequence[Logged]:
    """Play the story on `threads` threads in parallel, and return every request."""
    clock, model = QuickClock(), Model()
    with ScriptedModel(model) as api, SimulatedGitHub(folder / "github", clock=clock) as github:
        installation = settle(github.world, github)
        bare = github.world.bare(github.world.repository(HOME))
        at = bare.refs()["refs/heads/main"]
        old = {f"refs/pull/{number}/head": at for number in range(1_000, 1_000 + pulls)}
        bare.pack_refs(old | {f"refs/heads/topic/{number}": at for number in range(branches)})
        async with HostSetup(settings(github, api.base_url, folder / "data"), clock=clock) as host:
            story = Story(github, installation, clock.advance, host, clock, model, api)
            numbers = [story.opens("will", title=f"Thread {number}").number for number in range(threads)]

            async def look(number: int) -> Stage:
                return (await host.check_thread(story.address(number))).stage

            await asyncio.gather(*map(look, numbers))
            for number in numbers:
                story.reacts("maya", "+1", story.plans(number)[-1])
            stages = await asyncio.gather(*map(look, numbers))
            if set(stages) != {Stage.IN_REVIEW}:
                raise SystemExit(f"the story ended at {stages}")
        return github.requests


def _show(name: str, requests: Sequence[Logged]) -> None:
    """Print one row: requests and kB of each kind."""
    count, size = Counter[str](), Counter[str]()
    for logged in requests:
        count[_kind(logged)] += 1
        size[_kind(logged)] += logged.sent
    cells = (f"{count[kind]} ({size[kind] / 1e3:.1f} kB)" for kind in ("listings", "fetches", "push lists"))
    print(f"| {name} | {' | '.join(cells)} | {count['pushes']} |", flush=True)


def main() -> None:
    """Play every case and print the table."""
    print("| beside | listings | fetches | what pushes list | pushes |\n|---|---|---|---|---|")
    for name, pulls, branches, threads in CASES:
        with tempfile.TemporaryDirectory() as folder:
            _show(name, asyncio.run(_play(Path(folder), pulls, branches, threads)))


if __name__ == "__main__":
    main()

"""What checking receipts takes: the command for one commit, and a range of 1,000 commits that each have one.

The floor of a command is the same interpreter that does nothing, measured beside it.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.core.receipt import RECEIPT_FILE, receipt_ref
from bot.receipts.envelope import sign_statement
from tests.receipts.conftest import KEY, Clone, make_clone

COMMITS = 1_000
TRIES = 5


def _fastest(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some tries."""
    found = []
    for _ in range(TRIES):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def _verify(clone: Clone, *arguments: str) -> None:
    command = [str(Path(sys.executable).parent / "plangate"), "verify", "--dir", str(clone.path)]
    ran = subprocess.run([*command, "--keys", str(clone.keys), *arguments], capture_output=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stdout.decode() + ran.stderr.decode())


def _add_commits(clone: Clone, number: int) -> str:
    """Add commits of approved work with their receipts, and return the commit before them."""
    before = clone.git("rev-parse", "HEAD")
    moves = []
    for n in range(number):
        commit, statement = clone.work(f"{n}\n")
        blob = clone.git("hash-object", "-w", "--stdin", stdin=sign_statement(statement, KEY))
        tree = clone.git("mktree", stdin=f"100644 blob {blob}\t{RECEIPT_FILE}\n".encode())
        moves.append(f"create {receipt_ref(commit)} {clone.git('commit-tree', tree, '-m', 'receipt')}\n")
    clone.git("update-ref", "--stdin", stdin="".join(moves).encode())
    clone.git("pack-refs", "--all")
    clone.git("gc", "--quiet")
    return before


def main() -> None:
    """Print the seconds of each, and the ratio to the floor."""
    with tempfile.TemporaryDirectory() as folder:
        clone = make_clone(Path(folder) / "clone", Path(folder) / "keys.json")
        before = _add_commits(clone, COMMITS)
        floor = _fastest(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        one = _fastest(lambda: _verify(clone, "HEAD"))
        many = _fastest(lambda: _verify(clone, "--range", f"{before}..HEAD"))
    print(f"an interpreter that does nothing  {floor:6.3f} s")
    print(f"plangate verify HEAD              {one:6.3f} s  {one / floor:5.1f} x")
    print(f"plangate verify --range, {COMMITS:,}    {many:6.3f} s  {1000 * many / COMMITS:.2f} ms a commit")


if __name__ == "__main__":
    main()

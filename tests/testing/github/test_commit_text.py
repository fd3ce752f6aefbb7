"""What a commit says is what git says of it."""

from pathlib import Path

import pytest

from bot.testing.github.bare import Bare
from bot.testing.github.git_objects import CommitText

SIGNED = (
    "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
    "author Ada <ada@example.org> 1700000000 +0530\n"
    "committer  <bot@example.org> 1700000001 -0130\n"
    "gpgsig -----BEGIN PGP SIGNATURE-----\n \n tree author\n -----END PGP SIGNATURE-----\n"
    "\nSubject\n\nauthor of the body\n\n"
)
FORM = "%T%x00%P%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%B"


@pytest.mark.parametrize("is_in_files", (True, False), ids=("in files", "asked of git"))
def test_git_says_the_same(tmp_path: Path, *, is_in_files: bool) -> None:
    """Signed or with several parents, from an object of its own or from a pack with differences."""
    bare = Bare(tmp_path / "it.git")
    bare.create("main")
    bare.run("hash-object", "-t", "tree", "-w", "--stdin")
    first, text = "", SIGNED
    for number in range(3):
        ident = bare.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).decode().strip()
        bare.move(f"refs/heads/{number}", ident)
        parents = f"parent {first or ident}\nparent {ident}\nauthor"
        text, first = SIGNED.replace("author", parents, 1), first or ident
    if not is_in_files:
        bare.run("repack", "-a", "-d", "-q", "-f")
    for number in range(3):
        ident = bare.refs()[f"refs/heads/{number}"]
        told = bare.text("show", "--no-patch", f"--format={FORM}", ident, "--").split("\0")
        found = CommitText.parse(bare.commit_text(ident))
        assert [found.tree, " ".join(found.parents)] == told[:2]
        assert [*found.author.values(), *found.committer.values()] == told[2:8]
        assert found.message == told[8].rstrip("\n")

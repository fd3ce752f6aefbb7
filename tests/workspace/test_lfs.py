"""Git LFS: a file that it keeps is never published as a plain blob."""

from pathlib import Path

import pytest

from bot.core.errors import Refused
from bot.workspace.workspace import GitWorkspace
from tests.workspace.ground import Repository, Work, publish, write

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12\n"
HELD, FORGED = POINTER.format("a" * 64), POINTER.format("b" * 64)
RULES = "*.bin filter=lfs diff=lfs merge=lfs -text\n"


@pytest.fixture
def repository(repository: Repository) -> Repository:
    """One whose `*.bin` files are kept by Git LFS, with one such file."""
    repository.commit(_dot_gitattributes=RULES, data__a_dot_bin=HELD)
    return repository


def rules_taken_away(tree: Path) -> None:
    (tree / ".gitattributes").unlink()
    (tree / "data" / "a.bin").write_text("plain")


def by_a_macro(tree: Path) -> None:
    (tree / ".gitattributes").write_text("[attr]stored filter=lfs\n*.dat stored\n")
    (tree / "new.dat").write_text("plain")


def by_rules_of_a_folder(tree: Path) -> None:
    (tree / "src" / ".gitattributes").write_text("* filter=lfs\n")


def moved_plain(tree: Path) -> None:
    (tree / "README.md").rename(tree / "readme.bin")


REFUSED: dict[str, tuple[Work, str]] = {
    "changed": (write(data__a_dot_bin="plain"), "data/a.bin"),
    "added": (write(new_dot_bin="plain"), "new.bin"),
    "pointer to nothing": (write(new_dot_bin=FORGED), "new.bin"),
    "plain file moved": (moved_plain, "readme.bin"),
    "rules of the base": (rules_taken_away, "data/a.bin"),
    "rules of the work, by a macro": (by_a_macro, "new.dat"),
    "rules of the work, in a folder": (by_rules_of_a_folder, "src/.gitattributes"),
}


@pytest.mark.req("G3")
@pytest.mark.parametrize("what", REFUSED)
async def test_refused(what: str, workspace: GitWorkspace, repository: Repository) -> None:
    """By the rules of the base, or of the work: it is named, and no branch is made."""
    work, named = REFUSED[what]
    with pytest.raises(Refused, match="kept by Git LFS") as caught:
        await publish(workspace, repository, work)
    assert caught.value.where == named
    assert repository.git("branch", "--format=%(refname:short)") == "main"


def moved(tree: Path) -> None:
    (tree / "data" / "a.bin").rename(tree / "b.bin")


def made_a_program(tree: Path) -> None:
    (tree / "data" / "a.bin").chmod(0o755)


def removed(tree: Path) -> None:
    (tree / "data" / "a.bin").unlink()


def linked(tree: Path) -> None:
    (tree / "b.bin").symlink_to("data/a.bin")


PUBLISHED: dict[str, tuple[Work, tuple[str, ...]]] = {
    "left alone": (write(new="x"), ("new",)),
    "moved": (moved, ("b.bin", "data/a.bin")),
    "made a program": (made_a_program, ("data/a.bin",)),
    "removed": (removed, ("data/a.bin",)),
    "a link": (linked, ("b.bin",)),
    "another filter": (
        write(_dot_gitattributes=f"{RULES}*.py filter=black\n", b_dot_py="x"),
        (".gitattributes", "b.py"),
    ),
}


@pytest.mark.parametrize("what", PUBLISHED)
async def test_published(what: str, workspace: GitWorkspace, repository: Repository) -> None:
    """Pointers whose objects the server has stay what they are, and all other work is published beside them."""
    work, paths = PUBLISHED[what]
    published = await publish(workspace, repository, work, ("**", ".gitattributes"))
    assert published.paths == paths

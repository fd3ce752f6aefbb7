"""Tricks with what a git directory is: moved, pointed elsewhere, broken, or lying about the tree.

Each script runs at the top of a checkout; most of them leave no repository there.
"""

from tests.workspace.museum.exhibit import Room, Trap
from tests.workspace.museum.git_dir import config

POINTERS = Room()


def evil_copy(place: str, trap: Trap) -> str:
    """Return the lines that copy the git directory, with a trap in the copy's configuration."""
    return f"cp -a .git {place}; git --git-dir={place} config core.fsmonitor {trap.program}"


@POINTERS.refuses("store/.git: its name means .git")
def link(trap: Trap) -> str:
    """.git is a link to a folder of the work tree."""
    return f"mkdir store; {evil_copy('store/.git', trap)}; rm -rf .git; ln -s store/.git .git"


@POINTERS.harmless
def link_elsewhere(trap: Trap) -> str:
    """.git is a link to a folder of the machine."""
    return "rm -rf .git; ln -s /etc .git"


@POINTERS.publishes("store/config", "store/HEAD")
def file(trap: Trap) -> str:
    """.git is a file that points at a folder of the work tree."""
    keep = "find store -mindepth 1 -maxdepth 1 ! -name HEAD ! -name config -exec rm -rf {} +"
    return f"{evil_copy('store', trap)}; {keep}; rm -rf .git; echo 'gitdir: store' > .git"


@POINTERS.harmless
def work_tree_pointer(trap: Trap) -> str:
    """commondir and gitdir: the pointers of a linked work tree."""
    return "echo /etc > .git/commondir; echo /etc/.git > .git/gitdir"


@POINTERS.harmless
def gone(trap: Trap) -> str:
    """There is no .git any more."""
    return "rm -rf .git"


@POINTERS.harmless
def pipe(trap: Trap) -> str:
    """.git is a pipe, on which a reader waits for ever."""
    return "rm -rf .git; mkfifo .git"


@POINTERS.locks()
def locked_away(trap: Trap) -> str:
    """.git cannot be entered."""
    return "chmod 000 .git/objects .git"


@POINTERS.harmless
def unknown_format(trap: Trap) -> str:
    """A repository format and an extension that no git knows."""
    return config(("extensions.evil", "true")) + "\ngit config core.repositoryformatversion 1"


@POINTERS.harmless
def replaced_objects(trap: Trap) -> str:
    """refs/replace: git shows another commit and another file than the ones that are named."""
    return """evil=$(echo 'a = 666' | git hash-object -w --stdin)
git replace $(git rev-parse HEAD:src/a.py) $evil
git replace $(git rev-parse HEAD) $(git commit-tree -m evil HEAD^{tree})"""


@POINTERS.harmless
def grafts(trap: Trap) -> str:
    """info/grafts and shallow: the history is another one."""
    return "git rev-parse HEAD > .git/shallow; git rev-parse HEAD > .git/info/grafts"


@POINTERS.publishes("src/a.py", "src/b.py")
def hidden_changes(trap: Trap) -> str:
    """The index says that changed files need no look: they are published all the same."""
    planted = "git update-index --assume-unchanged src/a.py; git update-index --skip-worktree src/b.py"
    return f"{planted}; echo 'a = 2' > src/a.py; echo 'b = 2' > src/b.py"


@POINTERS.publishes("README.md", "link", "run.sh")
def sparse_checkout(trap: Trap) -> str:
    """A sparse checkout takes files away, and the publisher takes the tree as it stands."""
    return "git sparse-checkout set --no-cone '/src/*'"


@POINTERS.harmless
def broken_index(trap: Trap) -> str:
    """The index is nonsense, and locked."""
    return "echo nonsense > .git/index; touch .git/index.lock .git/HEAD.lock .git/config.lock"


@POINTERS.harmless
def option_names(trap: Trap) -> str:
    """Branches and tags whose names are options."""
    return """for name in --upload-pack=evil -u --exec=evil; do
  git rev-parse HEAD > .git/refs/heads/$name; mkdir -p .git/refs/tags; git rev-parse HEAD > .git/refs/tags/$name
done"""


@POINTERS.harmless
def head_elsewhere(trap: Trap) -> str:
    """HEAD and the packed refs name files of the machine."""
    return "echo 'ref: refs/heads/../../../../../etc/passwd' > .git/HEAD; echo '../../x y' > .git/packed-refs"


@POINTERS.harmless
def own_commits(trap: Trap) -> str:
    """The agent commits, moves branches and leaves a merge half done."""
    return "git add -A; git commit -qm evil; git branch -f main; git rev-parse HEAD > .git/MERGE_HEAD"


@POINTERS.harmless
def broken_objects(trap: Trap) -> str:
    """An object of the base, under its own id, holds something else."""
    return """oid=$(git rev-parse HEAD:src/a.py); place=.git/objects/$(echo $oid | cut -c1-2)
mkdir -p $place; echo nonsense > $place/$(echo $oid | cut -c3-)"""

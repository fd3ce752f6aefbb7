"""Tricks in what the server holds: trees, histories and refs that somebody pushed, before anything is worked on.

Each script runs in a repository that is pushed to the server afterwards, with all of its refs; what is refused is
refused before a checkout is made.
"""

from tests.workspace.museum.exhibit import Room, Trap

HISTORY = Room()
_DANGEROUS = "the history holds a dangerous object"


def commit(*lines: str) -> str:
    """Return the lines that commit the work tree after these."""
    return "\n".join((*lines, "git add -A; git commit -qm evil"))


def entry(mode: str, kind: str, name: str, content: str = "x") -> str:
    """Return the lines that add an entry to the top tree of HEAD, whatever git thinks of it."""
    oid = f"$(printf '{content}' | git hash-object -w --stdin)" if kind == "blob" else content
    added = f"printf '{mode} {kind} %s\\t%b\\0' {oid} '{name}'"
    return f"""tree=$( (git ls-tree -z HEAD; {added}) | git mktree -z --missing)
git reset -q --soft $(git commit-tree -p HEAD -m evil $tree)"""


@HISTORY.refuses(_DANGEROUS)
def git_in_a_tree(trap: Trap) -> str:
    """A tree that holds .GIT."""
    return entry("100644", "blob", ".GIT")


@HISTORY.refuses(_DANGEROUS)
def git_with_an_ignorable(trap: Trap) -> str:
    """A tree that holds .git with a joiner in it."""
    return entry("100644", "blob", ".g\\xe2\\x80\\x8cit")


@HISTORY.refuses(_DANGEROUS)
def upwards(trap: Trap) -> str:
    """A tree that holds .., whose files lie outside of it."""
    return entry("040000", "tree", "..", "$(git rev-parse HEAD:src)")


@HISTORY.refuses(_DANGEROUS)
def twice(trap: Trap) -> str:
    """A tree that holds one name twice, as a link and as a folder: what is in the one is written through the other."""
    return entry("120000", "blob", "src", "/tmp")


@HISTORY.refuses(_DANGEROUS)
def modules_with_an_option(trap: Trap) -> str:
    """.gitmodules whose address is an option of git."""
    return entry("100644", "blob", ".gitmodules", '[submodule "x"]\\n\\tpath = x\\n\\turl = -u' + trap.program)


@HISTORY.refuses(_DANGEROUS)
def modules_with_a_path(trap: Trap) -> str:
    """.gitmodules whose name leads upwards, to a git directory that is a folder of the repository."""
    return entry("100644", "blob", ".gitmodules", '[submodule "../../x"]\\n\\tpath = x\\n\\turl = ./x')


@HISTORY.refuses(_DANGEROUS)
def modules_as_a_link(trap: Trap) -> str:
    """.gitmodules is a link."""
    return entry("120000", "blob", ".gitmodules", "src/a.py")


@HISTORY.harmless
def modules_with_a_command(trap: Trap) -> str:
    """.gitmodules with a command as its address and as its update; nobody asked for submodules."""
    module = f"printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::{trap.program}\\n' > .gitmodules"
    linked = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x; git commit -qm module"
    return f"{commit(module)}; {linked}"


@HISTORY.harmless
def attributes(trap: Trap) -> str:
    """.gitattributes that name drivers for everything, and LFS for what stays as it is."""
    return commit("printf '* filter=evil diff=evil merge=evil\\nsrc/** filter=lfs\\n' > .gitattributes")


@HISTORY.harmless
def unknown_encoding(trap: Trap) -> str:
    """.gitattributes that name an encoding which nobody has."""
    return commit("echo '*.xyz working-tree-encoding=EVIL-8' > .gitattributes; echo x > a.xyz") + (
        "\n" + entry("100644", "blob", "b.xyz")
    )


@HISTORY.harmless
def lfs(trap: Trap) -> str:
    """LFS pointers, and .lfsconfig with a stranger's address."""
    pointer = "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 5\\n' 1 > big.bin"
    return commit(pointer, f"printf '[lfs]\\n\\turl = {trap.address}\\n' > .lfsconfig")


@HISTORY.harmless
def bare_inside(trap: Trap) -> str:
    """A folder that is a bare repository, with a trap in its configuration."""
    return commit(
        "git init -q --bare fixture",
        f"git -C fixture config core.fsmonitor {trap.program}",
        "touch fixture/refs/x fixture/objects/x",
    )


@HISTORY.harmless
def links_to_the_machine(trap: Trap) -> str:
    """Links to folders of the machine, and .gitignore and .gitattributes that are links."""
    return commit("ln -s /etc out; ln -s ../../.. up; ln -s src/a.py .gitattributes; ln -s src/a.py .gitignore")


@HISTORY.harmless
def odd_names(trap: Trap) -> str:
    """Names that would be refused as new ones: options, patterns, two lines, devices, blanks."""
    return commit("for name in -u $'a\\nb' ':(top)x' aux.txt 'b ' 'c.' '..\\x'; do echo x > \"./$name\"; done")


@HISTORY.harmless
def same_names(trap: Trap) -> str:
    """Names that are one where case does not count, a link among them."""
    return commit("ln -s src SRC; echo 1 > readme.MD")


@HISTORY.harmless
def refs_on_the_server(trap: Trap) -> str:
    """Branches and tags that are options, and objects that are replaced."""
    return """git tag -- x
cp .git/refs/tags/x .git/refs/tags/--upload-pack=evil; cp .git/refs/tags/x .git/refs/heads/-u
git replace $(git rev-parse HEAD:src/a.py) $(echo 666 | git hash-object -w --stdin)"""


@HISTORY.harmless
def message_and_author(trap: Trap) -> str:
    """A commit whose author and message hold control characters, and name an encoding."""
    who = "GIT_AUTHOR_NAME=$'a\\e[31m\\u202e' GIT_AUTHOR_EMAIL=--evil"
    return f"{who} git -c i18n.commitEncoding=EVIL commit -q --allow-empty -m $'--upload-pack=x\\n\\e]0;x\\a'"


@HISTORY.refuses("a commit of this repository is too large")
def bomb_of_trees(trap: Trap) -> str:
    """Eight trees that each hold the one below ten times: a hundred million files in a kilobyte."""
    level = r"for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\td%s\n' $tree $n; done"
    return f"""tree=$(git rev-parse HEAD:src)
for level in 1 2 3 4 5 6 7 8; do tree=$( ({level}) | git mktree); done
{entry("040000", "tree", "bomb", "$tree")}"""


@HISTORY.refuses("a commit of this repository is too large")
def bomb_of_folders(trap: Trap) -> str:
    """The same with nothing at the bottom: a listing of files alone never comes to one."""
    level = r"for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\td%s\n' $tree $n; done"
    return f"""tree=$(git mktree < /dev/null)
for level in 1 2 3 4 5 6 7 8 9; do tree=$( ({level}) | git mktree); done
{entry("040000", "tree", "bomb", "$tree")}"""


@HISTORY.refuses("a commit of this repository is too large: a name in it is longer than 255 bytes")
def long_name(trap: Trap) -> str:
    """A name that no file system takes."""
    return entry("100644", "blob", "n" * 300, "$(git rev-parse HEAD:src/a.py)")


@HISTORY.refuses("a commit of this repository is too large")
def bomb_of_files(trap: Trap) -> str:
    """A hundred names of one file that is small when it is packed, and 20 GB on disk."""
    listed = r"for n in $(seq 100); do printf '100644 blob %s\tf%s\n' $blob $n; done"
    return f"""blob=$(head -c 200000000 /dev/zero | git hash-object -w --stdin)
tree=$( ({listed}) | git mktree)
{entry("040000", "tree", "bomb", "$tree")}"""


@HISTORY.refuses("a commit of this repository is too large")
def deep(trap: Trap) -> str:
    """A tree in a tree, five thousand times, deeper than a path can be long."""
    write = """import hashlib, os, sys, zlib
oid = sys.argv[1]
for _ in range(5000):
    data = b"40000 d\\0" + bytes.fromhex(oid)
    whole = b"tree %d\\0" % len(data) + data
    oid = hashlib.sha1(whole).hexdigest()
    os.makedirs(f".git/objects/{oid[:2]}", exist_ok=True)
    with open(f".git/objects/{oid[:2]}/{oid[2:]}", "wb") as file:
        file.write(zlib.compress(whole, 0))
print(oid)"""
    return f"tree=$(python3 -c '{write}' $(git rev-parse HEAD:src))\n" + entry("040000", "tree", "deep", "$tree")

"""Tricks with what lies in a work tree: links, names, kinds and sizes."""

from tests.workspace.museum.exhibit import Room, Trap

TREE = Room()
_MEANS_GIT = "its name means .git"
_WINDOWS = "cannot be had on Windows"


@TREE.refuses("out: it is a link that leads out")
def link_to_the_machine(trap: Trap) -> str:
    """A link to a file of the machine."""
    return "ln -s /etc/passwd out"


@TREE.refuses("src/out: it is a link that leads out")
def link_upwards(trap: Trap) -> str:
    """A link up and out of the repository."""
    return "ln -s ../../publishing src/out"


@TREE.refuses("out: it is a link that leads out")
def links_in_a_chain(trap: Trap) -> str:
    """Two links that each look harmless; together they lead out."""
    return "mkdir -p a/b; ln -s ../.. a/b/top; ln -s a/b/top/../x out"


@TREE.refuses("out: it is a link that leads out")
def link_into_git(trap: Trap) -> str:
    """A link into .git, in another case."""
    return "ln -s src/../.GIT/config out"


@TREE.publishes("inner", "src/up")
def links_inside(trap: Trap) -> str:
    """Links that stay inside are kept as links, dangling ones too."""
    return "ln -s src/a.py inner; ln -s ../not/there src/up"


@TREE.publishes("src", "src/a.py", "src/b.py")
def folder_became_a_link(trap: Trap) -> str:
    """A folder of the base is a link now: nothing is written through it."""
    return "rm -rf src; ln -s . src"


@TREE.refuses(_MEANS_GIT)
def git_in_capitals(trap: Trap) -> str:
    """.GIT, which is .git where case does not count."""
    return f"mkdir .GIT; printf '[core]\\n\\tfsmonitor = {trap.program}\\n' > .GIT/config"


@TREE.refuses(_MEANS_GIT)
def git_with_an_accent(trap: Trap) -> str:
    """.g, i with a dot above in two code points, t."""
    return "mkdir $'.gi\\u0307t'; echo x > $'.gi\\u0307t/config'"


@TREE.refuses(_MEANS_GIT)
def git_as_a_short_name(trap: Trap) -> str:
    """git~1, which is .git on NTFS."""
    return "mkdir git~1; echo x > git~1/config"


@TREE.refuses(_MEANS_GIT)
def git_with_an_ignorable(trap: Trap) -> str:
    """.g, a joiner that HFS+ ignores, it."""
    return "mkdir $'.g\\u200cit'; echo x > $'.g\\u200cit/config'"


@TREE.refuses(_MEANS_GIT)
def git_as_a_stream(trap: Trap) -> str:
    """.git with a stream's name behind it, which is .git on NTFS."""
    return "echo x > .git::\\$INDEX_ALLOCATION"


@TREE.refuses(_MEANS_GIT)
def git_in_full_width(trap: Trap) -> str:
    """.git in letters of full width."""
    return "mkdir ．ｇｉｔ; echo x > ．ｇｉｔ/config"


@TREE.refuses("mod/.git: " + _MEANS_GIT)
def repository_inside(trap: Trap) -> str:
    """A repository in a folder, with a trap in its configuration."""
    return f"git init -q mod; git -C mod config core.fsmonitor {trap.program}; echo x > mod/x"


@TREE.refuses("mod/.git: " + _MEANS_GIT)
def pointer_inside(trap: Trap) -> str:
    """A folder whose .git points at a folder of the machine."""
    return "mkdir mod; echo 'gitdir: /etc' > mod/.git; echo x > mod/x"


@TREE.publishes("lib/HEAD", "lib/config", "lib/objects/x", "lib/refs/x")
def bare_inside(trap: Trap) -> str:
    """A folder that is a bare repository is published as the files that it is."""
    trap_line = f"printf '[core]\\n\\tbare = true\\n\\tfsmonitor = {trap.program}\\n' > lib/config"
    return (
        f"mkdir -p lib/objects lib/refs; echo 'ref: refs/heads/x' > lib/HEAD; {trap_line}; touch lib/{{objects,refs}}/x"
    )


@TREE.publishes("HEAD", "config", "objects/x", "refs/x")
def bare_at_the_top(trap: Trap) -> str:
    """HEAD, config, objects and refs at the top: the work tree looks like a bare repository."""
    trap_line = f"printf '[core]\\n\\tbare = true\\n\\tfsmonitor = {trap.program}\\n' > config"
    return f"mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; {trap_line}; touch objects/x refs/x"


@TREE.refuses("pipe: it is a socket, a pipe or a device")
def named_pipe(trap: Trap) -> str:
    """A pipe: whoever opens it waits for ever."""
    return "mkfifo pipe"


@TREE.refuses("sock: it is a socket, a pipe or a device")
def unix_socket(trap: Trap) -> str:
    """A socket."""
    return "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'"


@TREE.publishes("hard")
def hard_link(trap: Trap) -> str:
    """A second name of a file is a file of its own."""
    return "ln src/a.py hard"


@TREE.publishes("tool")
def setuid(trap: Trap) -> str:
    """The setuid bit is not kept."""
    return "echo '#!/bin/sh' > tool; chmod 6755 tool"


@TREE.refuses("huge: it is larger than 50 MB")
def huge_file(trap: Trap) -> str:
    """A file of 200 MB that takes no room on disk."""
    return "truncate -s 200M huge"


@TREE.refuses("src/a.py: it is larger than 50 MB")
def endless_file(trap: Trap) -> str:
    """A file of the base that has become endless, as good as: whoever reads it never ends."""
    return "truncate -s 900G src/a.py || truncate -s 1G src/a.py"


@TREE.refuses("README.md is the same name on other systems")
def other_case(trap: Trap) -> str:
    """A name that differs from another one in case alone."""
    return "echo x > readme.MD"


@TREE.refuses("is the same name on other systems")
def other_form(trap: Trap) -> str:
    """Two names that are one where forms of Unicode do not count."""
    return "echo 1 > $'caf\\u00e9'; echo 2 > $'cafe\\u0301'"


@TREE.refuses(_WINDOWS)
def backslash(trap: Trap) -> str:
    """A name that leads upwards on Windows."""
    return "echo x > '..\\..\\evil'"


@TREE.refuses(_WINDOWS)
def dot_at_the_end(trap: Trap) -> str:
    """A name whose last dot Windows drops."""
    return "echo x > 'run.sh.'"


@TREE.refuses(_WINDOWS)
def new_line(trap: Trap) -> str:
    """A name of two lines."""
    return "echo x > $'a\\nb'"


@TREE.refuses(_WINDOWS)
def magic(trap: Trap) -> str:
    """A name that git reads as a pattern."""
    return "echo x > ':(top,glob)**'"


@TREE.refuses(_WINDOWS)
def device_of_windows(trap: Trap) -> str:
    """A name that is a device on Windows."""
    return "echo x > src/aux.txt"


@TREE.publishes("--upload-pack=evil", "-rf")
def options(trap: Trap) -> str:
    """Names that look like options are files."""
    return "echo x > ./-rf; echo x > ./--upload-pack=evil"


@TREE.refuses("invisible characters")
def turned_around(trap: Trap) -> str:
    """A name with a character that turns the direction of writing."""
    return "echo x > $'a\\u202egpj.exe'"


@TREE.refuses("no UTF-8")
def no_text(trap: Trap) -> str:
    """A name that is no text."""
    return "echo x > $'bad\\xff'"


@TREE.refuses("does not name: .gitmodules")
def modules(trap: Trap) -> str:
    """.gitmodules with an address that is a command."""
    return f"printf '[submodule \"-u\"]\\n\\tpath = -u\\n\\turl = ext::{trap.program}\\n' > .gitmodules"


@TREE.refuses("Ignoring path .gitmodules")
def modules_as_a_link(trap: Trap) -> str:
    """.gitmodules is a link."""
    return "ln -s src/a.py .gitmodules"


@TREE.refuses("does not name: .gitattributes")
def attributes(trap: Trap) -> str:
    """.gitattributes that name a filter, and its program in the configuration."""
    return f"echo '* filter=evil' > .gitattributes; git config filter.evil.clean {trap.program}"


@TREE.refuses("failed to encode")
def unknown_encoding(trap: Trap) -> str:
    """.gitattributes that name an encoding which nobody has: git can store no file."""
    return "echo '* working-tree-encoding=EVIL-8' > .gitattributes; echo x > other"


@TREE.locks("it lies too deep")
def deep(trap: Trap) -> str:
    """Folders in folders, deeper than a path can be long."""
    return 'python3 -c \'import os\nfor _ in range(3000): os.mkdir("d"); os.chdir("d")\nopen("f", "w").close()\''


@TREE.publishes(".gitignore")
def slow_rules(trap: Trap) -> str:
    """.gitignore with a pattern that takes for ever to match."""
    return f"echo '{'*a' * 30}b' > .gitignore; touch {'a' * 100}; rm {'a' * 100}"

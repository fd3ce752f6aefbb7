"""Tables of the programs that only read, and of their options that do more (S10), for `shell_policy`.

Rules
- PURE programs only read whatever their arguments are, so their arguments may hold expansions. A command that plainly
  never ends is refused; the time limit ends the rest.
- CHECKED programs have options that write or run programs. Their judges see the arguments as the program gets them. A
  long option is matched from the shortest abbreviation that the program accepts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

PURE: Final = frozenset(
    "ls cat head tail wc echo pwd cd which type true false stat basename dirname realpath readlink cut "
    "tr cmp nl tac rev grep egrep fgrep du comm md5sum sha1sum sha256sum sha512sum cksum seq uname id "
    "paste join fold expand unexpand fmt od whoami nproc".split()
)

_GIT_READS: Final = frozenset(
    "log show diff status blame annotate ls-files ls-tree rev-parse cat-file grep describe shortlog rev-list "
    "merge-base name-rev for-each-ref show-ref whatchanged range-diff cherry count-objects diff-tree diff-index "
    "check-ignore".split()
)
_GIT_LISTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "branch": frozenset({"--list", "-l", "-a", "-r", "-v", "-vv", "--all", "--remotes", "--show-current"}),
        "tag": frozenset({"--list", "-l", "-n"}),
        "remote": frozenset({"-v", "--verbose"}),
        "stash": frozenset({"list"}),
        "worktree": frozenset({"list"}),
    }
)
_GIT_REFUSED: Final = (
    *("--ou", "--ext", "--textc", "--op", "--up", "--exec"),
    *("--show-s", "--reme", "--diff-m"),  # run gpg; write objects
    "--help",  # runs man, or what the configuration names
)
_GIT_REFUSED_BY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cat-file": ("--fi", "--t"),  # run the programs of the repository's configuration
        "describe": ("--di", "--br"),  # refresh the index
    }
)
_GIT_SIGNATURE: Final = re.compile(r"%[-+ ]?G")
"""Commit format placeholders for which git runs gpg: git-log(1), PRETTY FORMATS."""
_GIT_FIELD: Final = re.compile(r"(?<!contents:)signature")
"""The same in ref formats and sort keys: git-for-each-ref(1), FIELD NAMES."""
_GIT_NEEDS_WORD: Final = frozenset({"stash", "worktree"})

_SETS_VARIABLE: Final = re.compile(r"%[^%A-Za-z]*[hlqjztL]*n")
"""For %n, bash's printf stores the number of characters written in a variable, such as PATH."""
_MAY_BE_OTHERS: Final = frozenset("*?[{")
_MAY_BE_OPTION: Final = frozenset(["", *"-$`\\~<"])
"""First characters of an argument that bash may turn into `-v`: printf -v evaluates the subscript of its variable."""
_DATE_OPTIONS: Final = frozenset({"-u", "--utc", "-R", "-I", "-Iseconds", "-Iminutes", "--rfc-email"})


def endless(name: str, words: Sequence[str]) -> bool:
    """Return whether a PURE program plainly never ends, or reads a device. `words` are as written on the line."""
    bare = (re.sub(r"""['"\\]""", "", word) for word in words)
    if any(word.startswith("/dev/") and word != "/dev/null" for word in bare):
        return True
    follows = (word.startswith(("--f", "--r", "--p")) or _cluster(word, "fF") for word in words)
    return name == "tail" and any(follows)


def prints(kind: str, text: str) -> bool:
    """Return whether printf with this first argument only prints.

    `kind` is the type of its syntax node, `text` its source.
    """
    if kind not in {"word", "number", "string", "raw_string"} or text.lstrip("'\"")[:1] in _MAY_BE_OPTION:
        return False
    if kind == "word" and _MAY_BE_OTHERS & set(text):  # file names become the format and the arguments
        return False
    return not _SETS_VARIABLE.search(text.replace("\\", "").replace("%%", "")) and (
        kind == "raw_string" or not set("$`") & set(text)
    )


def _cluster(word: str, letters: str) -> bool:
    """Return whether a word is a cluster of short options that may contain one of `letters`."""
    return word.startswith("-") and word[1:2] != "-" and bool(set(letters) & set(word))


def _without(*prefixes: str, letters: str = "") -> Callable[[list[str]], bool]:
    """Return a judge that refuses options by prefix (long options may be abbreviated) and by letter in a cluster."""

    def judge(words: list[str]) -> bool:
        return not any(word.startswith(prefixes) or _cluster(word, letters) for word in words)

    return judge


def _sed(words: list[str]) -> bool:
    """Allow printing lines by number: ``sed -n 3,9p file``."""
    plain = [word for word in words if not word.startswith("-")]
    options = {word for word in words if word.startswith("-")}
    return options == {"-n"} and bool(plain) and set(plain[0]) <= set("0123456789,$p;") and plain[0].endswith("p")


def _git(words: list[str]) -> bool:
    """Allow git's reading subcommands, without options that write, run programs, or open a pager."""
    while words[:1] == ["-C"] or words[:1] == ["--no-pager"]:
        words = words[2:] if words[0] == "-C" else words[1:]
    if not words:
        return False
    subcommand, arguments = words[0], words[1:]
    if subcommand in _GIT_LISTS:
        listing = all(word in _GIT_LISTS[subcommand] for word in arguments)
        return listing and (bool(arguments) or subcommand not in _GIT_NEEDS_WORD)
    # git grep opens a pager with -O, also in a cluster.
    refused = _without(*_GIT_REFUSED, *_GIT_REFUSED_BY.get(subcommand, ()), letters="O")
    signed = _GIT_FIELD if subcommand == "for-each-ref" else _GIT_SIGNATURE
    return subcommand in _GIT_READS and refused(arguments) and not any(map(signed.search, arguments))


def _uniq(words: list[str]) -> bool:
    """Allow at most one file: uniq writes to the second one."""
    files = [word for word in words if word == "-" or not word.startswith("-")]
    return "--" not in words and len(files) <= 1 and not any(set("*?[") & set(word) for word in files)


def _date(words: list[str]) -> bool:
    """Allow printing the time in a format. Any other argument sets the clock or reads files."""
    return all(word in _DATE_OPTIONS or word.startswith("+") for word in words)


CHECKED: Final[Mapping[str, Callable[[list[str]], bool]]] = MappingProxyType(
    {
        "date": _date,
        "find": _without("-exec", "-ok", "-delete", "-fprint", "-fls"),
        "file": _without("--c", "--m", "--u", "--pre", letters="CmzZp"),  # -p sets the time of the last access
        "rg": _without("--pre", "--hostname-bin", "--search-zip", "-z", letters="z"),
        "sort": _without("--o", "--co", "--t", letters="oT"),
        "test": _without("-v", "-R"),
        "uniq": _uniq,
        "diff": _without("--pag", letters="l"),
        "tree": _without("--o", letters="oR"),
        "sed": _sed,
        "git": _git,
    }
)

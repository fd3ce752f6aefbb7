"""Is this shell line read-only? A real parser reads it; what it cannot read, or what is not listed here, is not (S10).

Rules
- Every command of the line is judged, inside substitutions and subshells too.
- A command is PURE (whatever its arguments, it only reads) or CHECKED (its arguments must be literal, since an
  expansion could smuggle in an option, and none may be a writing or executing option).
- Assignments, functions, loops, here-documents and redirections to anything but /dev/null are not read-only.
- What the parser and bash divide into words in different ways is not read-only: control characters (bash divides at
  space, tab and newline alone) and a backslash at the end of a line (bash joins what the parser takes for two words).
This is one of four layers (P4): the sandbox holds whatever slips through.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST: Final = 10_000

PURE: Final = frozenset(
    "ls cat head tail wc echo pwd cd which type true false stat basename dirname realpath readlink cut "
    "tr cmp nl tac rev grep egrep fgrep du comm md5sum sha1sum sha256sum seq uname id".split()
)

_STRUCTURE: Final = frozenset(
    "program list pipeline command command_name subshell negated_command redirected_statement file_redirect "
    "file_descriptor word number string string_content raw_string concatenation command_substitution comment "
    "test_command unary_expression binary_expression test_operator herestring_redirect".split()
)
_EXPANSIONS: Final = frozenset({"command_substitution", "concatenation"})
_PLAIN_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-[")
_GLOB: Final = frozenset("*?[")
_GLOB_START: Final = ("*", "?", "[", "{", "~")
_MAY_BE_OPTION: Final = frozenset(["", *"-$`\\*?[{~<"])
"""How an argument may begin that is `-v` once bash has read it: printf -v evaluates the subscript of its variable."""
_FILE: Final = re.compile(r"<\s*[\w./+@%,:=-]+")

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
_GIT_REFUSED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({"cat-file": ("--fi", "--t")})
"""Options that run the programs of the repository's configuration, as short as git takes them."""
_GIT_NEEDS_WORD: Final = frozenset({"stash", "worktree"})


def is_read_only(line: str) -> bool:
    """Tell whether every command of a shell line is known to change nothing; False for all that is not understood."""
    if len(line) > LONGEST or "\\\n" in line or any(_divides(sign) for sign in line):
        return False
    # The parser reads beyond its tables at some letters outside of ASCII, which ends the process; to bash they are
    # parts of words, as a percent sign is.
    plain = "".join(sign if sign.isascii() else "%" for sign in line)
    root = _parser().parse(plain.encode()).root_node
    return not root.has_error and all(_harmless(node) for node in _walk(root))


def _divides(sign: str) -> bool:
    """Tell whether a character means another thing to the parser than to bash, or is none (a lone surrogate)."""
    return sign not in " \t\n" and (sign.isspace() or unicodedata.category(sign) in {"Cc", "Cf", "Cs"})


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _walk(node: "Node") -> Iterator["Node"]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(current.named_children)


def _harmless(node: "Node") -> bool:
    """Judge one node of the syntax tree by itself."""
    if node.type not in _STRUCTURE:
        return False
    match node.type:
        case "command":
            return _harmless_command(node)
        case "file_redirect":
            return _harmless_redirect(_text(node))
        case "test_command":
            # bash evaluates a subscript, and with it what is substituted there, even of a quoted operand; and to [ a
            # sign of comparison is a redirection.
            return not set("$`\\<>") & set(_text(node))
        case _:
            return not any(child.type == "&" for child in node.children)


def _harmless_redirect(text: str) -> bool:
    """Allow reading from a file that is plainly named, joining outputs, and /dev/null."""
    plain = text.replace(" ", "").lstrip("0123456789")
    if plain in {">&1", ">&2", ">/dev/null", "&>/dev/null", ">>/dev/null"}:
        return True
    # bash opens sockets for /dev/tcp and /dev/udp itself (bash(1), REDIRECTION).
    return _FILE.fullmatch(plain) is not None and ("/dev/" not in plain or plain == "</dev/null")


def _harmless_command(node: "Node") -> bool:
    name, arguments = _text(node.named_children[0]), node.named_children[1:]
    if node.named_children[0].type != "command_name" or not set(name) <= _PLAIN_NAME:
        return False
    if name in PURE:
        return True
    if name == "printf":
        return not arguments or _text(arguments[0]).lstrip("'\"")[:1] not in _MAY_BE_OPTION
    judge = _CHECKED.get(name)
    words = _literal(arguments)
    return judge is not None and words is not None and judge(words)


def _literal(arguments: Sequence["Node"]) -> list[str] | None:
    """Give the arguments as the program gets them, or None where one is not plainly written."""
    words = []
    for node in arguments:
        if node.type.endswith("redirect"):
            continue
        word = _literal_word(node)
        if word is None:
            return None
        words.append(word)
    return words


def _literal_word(node: "Node") -> str | None:
    """Give one argument without its quotes, or None where the shell would still change it."""
    text = _text(node)
    if any(inner.type in _EXPANSIONS for inner in _walk(node)):
        return None
    match node.type:
        case "raw_string":
            return text[1:-1]
        case "string":
            return None if "\\" in text or "$" in text or "`" in text else text[1:-1]
        case "word" | "number":
            # A file may be called as an option is: a pattern must not begin as one.
            smuggles = text.startswith("-") and _GLOB & set(text)
            return None if "\\" in text or "{" in text or smuggles or text.startswith(_GLOB_START) else text
        case _:
            return None


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")


def _without(*prefixes: str, letters: str = "") -> Callable[[list[str]], bool]:
    """Make a judge that refuses options by prefix (long options may be abbreviated) and by letter in a cluster."""

    def judge(words: list[str]) -> bool:
        return not any(
            word.startswith(prefixes) or (word.startswith("-") and word[1:2] != "-" and set(letters) & set(word))
            for word in words
        )

    return judge


def _sed(words: list[str]) -> bool:
    """Allow printing lines by number: ``sed -n 3,9p file``."""
    plain = [word for word in words if not word.startswith("-")]
    options = {word for word in words if word.startswith("-")}
    return options == {"-n"} and bool(plain) and set(plain[0]) <= set("0123456789,$p;") and plain[0].endswith("p")


def _git(words: list[str]) -> bool:
    """Allow git's reading subcommands, without options that write, run programs or open a pager."""
    while words[:1] == ["-C"] or words[:1] == ["--no-pager"]:
        words = words[2:] if words[0] == "-C" else words[1:]
    if not words:
        return False
    subcommand, rest = words[0], words[1:]
    if subcommand in _GIT_LISTS:
        listing = all(word in _GIT_LISTS[subcommand] for word in rest)
        return listing and (bool(rest) or subcommand not in _GIT_NEEDS_WORD)
    refused = _without("--ou", "--ext", "--textc", "--op", "--up", "--exec", *_GIT_REFUSED.get(subcommand, ()))
    return subcommand in _GIT_READS and refused(rest) and not any(_orders(word) for word in rest)


def _orders(word: str) -> bool:
    """Tell whether a short option, also in a cluster, may be -O: git grep opens a pager with it."""
    return word.startswith("-") and word[1:2] != "-" and "O" in word


def _uniq(words: list[str]) -> bool:
    """Allow one file at most: uniq writes to the second one."""
    files = [word for word in words if word == "-" or not word.startswith("-")]
    return "--" not in words and len(files) <= 1 and not any(_GLOB & set(word) for word in files)


_CHECKED: Final[Mapping[str, Callable[[list[str]], bool]]] = MappingProxyType(
    {
        "find": _without("-exec", "-ok", "-delete", "-fprint", "-fls"),
        "rg": _without("--pre", "--hostname-bin", "--search-zip", "-z", letters="z"),
        "sort": _without("--o", "--co", "--t", letters="oT"),
        "test": _without("-v", "-R"),
        "uniq": _uniq,
        "diff": _without("--pag", "-l", letters="l"),
        "tree": _without("-o", "--output", letters="oR"),
        "sed": _sed,
        "git": _git,
    }
)

"""Decides whether a shell line is read-only (S10)."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# --- Programs that only read, and options that do more (S10) ----------------------------------------------------------
# Rules
# - PURE programs only read, whatever their arguments are, so their arguments may hold expansions. A command that
#   plainly never ends is refused; the time limit ends any other.
# - CHECKED programs have options that write or run programs. A judge for each sees the arguments as the program gets
#   them. A long option is matched from the shortest abbreviation that the program accepts.

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
"""Fields of ref formats and sort keys for which git runs gpg: git-for-each-ref(1), FIELD NAMES."""
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


# --- Decides whether a shell line is read-only (S10) ------------------------------------------------------------------
# A real parser reads the line. A line that it cannot parse, or that uses anything not listed here, is not read-only.
#
# Rules
# - Every command of the line is judged, including those inside substitutions and subshells.
# - A command is PURE (it only reads, whatever its arguments) or CHECKED (its arguments must be literal, since an
#   expansion could smuggle in an option, and none may be an option that writes or executes).
# - Assignments, functions, loops, here-documents, and redirections to anything but /dev/null are not read-only.
# - Only plain numbers may be evaluated as arithmetic: bash runs substitutions found in the subscripts of variables.
# - A line that the parser and bash split into words differently is not read-only: control characters (bash splits at
#   space, tab, and newline alone), non-blanks that the parser skips (such as a backslash before a blank, which bash
#   joins), adjoining parts of a command (one word to bash), backslashes next to backticks (bash removes one level of
#   them first), a # that follows a word (no comment to bash), a line that ends within a test.
#
# This is one of four layers (P4): the sandbox confines whatever slips through.

LONGEST: Final = 10_000

_STRUCTURE: Final = frozenset(
    "program list pipeline command command_name subshell negated_command redirected_statement file_redirect "
    "file_descriptor word number string string_content raw_string concatenation command_substitution comment "
    "test_command unary_expression binary_expression test_operator herestring_redirect".split()
)
_WORDS: Final = frozenset({"word", "raw_string", "string", "concatenation", "ansi_c_string"})
_SIGNS: Final = re.compile(r"[\s;&|<>(){}`]+")
_PLAIN_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-[")
_GLOB: Final = frozenset("*?[")
_NOT_IN_BRACKET: Final = _GLOB | frozenset("{&|;()")
_GLOB_START: Final = ("*", "?", "[", "{", "~")
_BLANK: Final = frozenset(b" \t\n;&|(")
_FILE: Final = re.compile(r"<\s*[\w./+@%,:=-]+")
_TO_NOWHERE: Final = frozenset({">&1", ">&2", ">/dev/null", "&>/dev/null", ">>/dev/null"})
_ESCAPED_SIGNS: Final = frozenset({r"\(", r"\)", r"\!"})
"""Signs that find uses to group its conditions."""
_ARITHMETIC: Final = frozenset("-eq -ne -lt -le -gt -ge".split())
_OF_VARIABLES: Final = frozenset({"-v", "-R"})
_OPEN_BLANK: Final = re.compile(r"(?<!\\)[ \t\n]|\\\n")
_TEST: Final = re.compile(r"\[ .* \]|\[\[ .* \]\]")
_QUOTING: Final = re.compile(r"""\$(?=['"])|['"\\]""")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


def is_read_only(line: str) -> bool:
    """Return whether every command of a shell line is known to change nothing.

    False for anything that is not understood.
    """
    if "`" in line and "\\" in line:
        return False
    root = parse_shell(line)
    if root is None or root.has_error:
        return False
    around = line[: root.start_byte] + line[root.end_byte :]
    return not around.strip(" \t\n") and all(_harmless(node) for node in walk(root))


def parse_shell(line: str) -> "Node | None":
    """Return the syntax tree of a line, or None if the line is too long or splits into words differently in bash.

    Every letter outside ASCII is replaced by an at sign, so that every byte of the tree is one character of the line.
    """
    if len(line) > LONGEST or any(_divides(sign) for sign in line):
        return None
    # The parser reads beyond its tables at some letters outside ASCII, which kills the process. To bash they are parts
    # of words without a special meaning, like an at sign. (A percent sign would mean something to printf and git.)
    plain = "".join(sign if sign.isascii() else "@" for sign in line)
    return _parser().parse(plain.encode()).root_node


def program_names(line: str) -> tuple[str, ...]:
    """List the words of a line that may be file names, without quotes and escapes.

    If the line cannot be parsed, list everything between blanks and signs.
    """
    root = parse_shell(line)
    if root is None or root.has_error:
        words = _SIGNS.split(line)
    else:
        words = [line[node.start_byte : node.end_byte] for node in walk(root) if node.type in _WORDS]
    bare = (strip_quotes(word) for word in words)
    return tuple(dict.fromkeys(word for word in bare if word))


def strip_quotes(text: str) -> str:
    """Return a piece of a line without the signs that quote and escape."""
    return _QUOTING.sub("", text)


def walk(node: "Node") -> Iterator["Node"]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(current.named_children)


def _skipped_bytes(node: "Node") -> bytes:
    """Return the bytes that the parser skipped between the parts of a node.

    In a string node they are text and are ignored.
    """
    if not node.children or node.type == "string":
        return b""
    ends = (node.start_byte, *(part.end_byte for part in node.children))
    starts = (*(part.start_byte for part in node.children), node.end_byte)
    gaps = (slice(end - node.start_byte, start - node.start_byte) for end, start in zip(ends, starts, strict=True))
    return b"".join((node.text or b"")[gap] for gap in gaps)


def _divides(sign: str) -> bool:
    """Return whether a character separates words differently for the parser than for bash, or is a lone surrogate."""
    return sign not in " \t\n" and (sign.isspace() or unicodedata.category(sign) in {"Cc", "Cf", "Cs"})


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _harmless(node: "Node") -> bool:
    """Return whether one node of the syntax tree is harmless by itself."""
    if node.type not in _STRUCTURE or _skipped_bytes(node).strip(b" \t\n"):
        return False
    match node.type:
        case "command":
            return _harmless_command(node)
        case "file_redirect":
            # The parser takes the words after a redirection for more files; to bash they are arguments.
            files = [child for child in node.named_children if child.type != "file_descriptor"]
            return len(files) == 1 and _harmless_redirect(_text(node))
        case "test_command":
            return _harmless_test(_text(node))
        case "word":
            return _OPEN_BLANK.search(_text(node)) is None
        case "comment":
            return _begins_word(node)
        case "negated_command":
            return _split_pieces(node)
        case _:
            return not any(child.type == "&" for child in node.children)


def _harmless_redirect(text: str) -> bool:
    """Allow reading from a plainly named file, joining outputs, and /dev/null."""
    plain = text.replace(" ", "").lstrip("0123456789")
    if plain in _TO_NOWHERE:
        return True
    # bash opens sockets for /dev/tcp and /dev/udp itself (bash(1), REDIRECTION).
    return _FILE.fullmatch(plain) is not None and ("/dev/" not in plain or plain == "</dev/null")


def _harmless_test(text: str) -> bool:
    """Allow tests of files and strings, and of plainly written numbers.

    bash evaluates a subscript, and any substitution in it, even in a quoted operand. `_` is a variable that holds a
    word of an earlier command. In [, a comparison sign is a redirection, a quoted operator is still an operator, and a
    pattern expands to whatever files are called, such as `-v`; a newline and any sign end the test. A bracket that
    touches a word is part of that word.
    """
    if not _TEST.fullmatch(text):
        return False
    words = re.sub(r"[()&|;]", " ", text).split()
    bare = {re.sub(r"""['"]""", "", word) for word in words}
    if (
        set("$`\\<>") & set(text)
        or _OF_VARIABLES & bare
        or (not text.startswith("[[") and _NOT_IN_BRACKET & set(text[1:-1]))
    ):
        return False
    operands = (words[at + side] for at, word in enumerate(words) if word in _ARITHMETIC for side in (-1, 1))
    return all(_NUMBER.fullmatch(word) for word in operands)


def _begins_word(comment: "Node") -> bool:
    """Return whether a comment is a comment to bash as well: it must begin where a word would."""
    root = comment
    while root.parent is not None:
        root = root.parent
    before = (root.text or b"")[: comment.start_byte - root.start_byte]
    return not before or before[-1] in _BLANK


def _harmless_command(node: "Node") -> bool:
    name, arguments = _text(node.named_children[0]), node.named_children[1:]
    plain = node.named_children[0].type == "command_name" and set(name) <= _PLAIN_NAME
    if not plain or not _split_pieces(node) or not all(child.is_named for child in node.children):
        return False  # a lone dollar sign is an argument to bash
    if name in PURE:
        return not endless(name, [_text(argument) for argument in arguments])
    if name == "printf":
        return not arguments or prints(arguments[0].type, _text(arguments[0]))
    judge = CHECKED.get(name)
    words = _literal(arguments)
    return judge is not None and words is not None and judge(words)


def _split_pieces(node: "Node") -> bool:
    """Return whether blanks separate the parts of a node. To bash, adjoining parts are one word."""
    return all(left.end_byte < right.start_byte for left, right in pairwise(node.children))


def _literal(arguments: Sequence["Node"]) -> list[str] | None:
    """Return the arguments as the program gets them, or None if one of them is not plainly written."""
    words = []
    for node in arguments:
        if node.type.endswith("redirect"):
            continue
        word = literal_word(node)
        if word is None:
            return None
        words.append(word)
    return words


def literal_word(node: "Node") -> str | None:
    """Return one argument without its quotes, or None if the shell would still change it."""
    text = _text(node)
    match node.type:
        case "concatenation":
            return _join_word(node)
        case "raw_string":
            return text[1:-1]
        case "string":
            return None if set("\\$`") & set(text) else text[1:-1]
        case "word" | "number" if text in _ESCAPED_SIGNS:
            return text[1:]
        case "word" | "number":
            # A file name may look like an option, so a pattern must not begin as one.
            smuggles = text.startswith("-") and _GLOB & set(text)
            return None if "\\" in text or "{" in text or smuggles or text.startswith(_GLOB_START) else text
        case _:
            return None


def _join_word(node: "Node") -> str | None:
    """Return a word made of several quoted and plain pieces, or None if the shell would still change it."""
    pieces = [literal_word(child) for child in node.children]
    patterns = any(child.type == "word" and _GLOB & set(_text(child)) for child in node.children)
    word = None if None in pieces else "".join(piece for piece in pieces if piece)
    return None if word is None or (patterns and word.startswith("-")) else word


def _text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")

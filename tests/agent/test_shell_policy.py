"""The check of shell lines that only read (S10), also against bash itself."""

import os
import random
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions.shell_policy import CHECKED, LONGEST, PURE, is_read_only, prints
from tests.rows import every_row


def lines(name: str) -> list[str]:
    """The lines of a table beside this file."""
    return [line for line in Path(__file__).with_name(name).read_text().splitlines() if line]


READ_ONLY = lines("shell_lines_that_read.txt")
NOT = lines("shell_lines_that_do_not.txt")

# What a table of lines cannot hold, or what looks like something else.
ODD = {
    "newline": "ls\nrm x",
    "newline in a substitution": "echo $(ls\nrm x)",
    "here-document": "cat <<E\n$(rm x)\nE",
    "here-document, quoted": "cat <<'E' | sh\nrm x\nE",
    "here-document and a command": "cat <<E\nx\nE\nrm x",
    "carriage return": "ls\rrm x",
    "carriage return before a newline": "ls\r\nrm x",
    "a folder called `cat` and a carriage return": "cat\r/../x.sh",
    "a folder called `ls` and a tab of the old kind": "ls\x0b/../x.sh",
    "form feed": "ls\x0c/../x.sh",
    "joined lines": "ls\\\n/../x.sh",
    "joined operator": "ls &\\\n& rm x",
    "joined lines in quotes": 'find . "-del\\\nete"',
    "no-break space": "ls\u00a0x",
    "em space": "ls\u2003/../x.sh",
    "line separator": "ls\u2028rm x",
    "paragraph separator": "ls\u2029rm x",
    "next line": "ls\u0085rm x",
    "right to left": "ls \u202etxt.sh",
    "zero width": "ls\u200b/../x.sh",
    "byte order mark": "\ufeffls",
    "Cyrillic look-alike": "сat a",
    "full-width": "ｌｓ",
    "full-width semicolon in a name": "ls；rm",
    "a letter at which the parser once ended the process": "{\U0010ffff",
    "NUL": "ls\x00; rm x",
    "NUL alone": "\x00",
    "escape": "ls \x1b[0m",
    "backspace": "ls \x08\x08rm",
    "delete": "ls \x7f",
    "lone surrogate": "ls \ud800",
    "huge": "ls " + "a" * LONGEST,
    "huge, many commands": "ls;" * LONGEST,
    "deeply nested": "echo " + "$(" * 3000,
    "deeply nested and closed": "(" * 2000 + "rm x" + ")" * 2000,
    "comment that ends": "ls # \\\nrm x",
    "arithmetic loop": "for ((;;)); do rm x; done",
    "assignment in a subshell": "(A=1; ls)",
    "redirected group": "{ ls; } > x",
    "redirected subshell": "(ls) > x",
    "redirect among arguments": "ls > x -la",
    "several redirections": "ls >/dev/null 2>x",
    "a word that begins with a newline": "ls \n\\' ]] rm x",
    "a comment after a newline in a word": "ls a\\\n#; rm x",
    "tab after a backslash": "cat \\\t# $(rm x)",
    "a backslash and a blank before a program": "ls |\\ rm x",
    "a line that ends within a test": "[ x =\ntouch ]",
    "a line that ends before the bracket": "[ -f a\n]",
    "a word that the parser passes over": "-\nls",
}


@pytest.mark.req("S10")
def test_a_line_that_only_reads_is_allowed() -> None:
    assert [line for line in READ_ONLY if not is_read_only(line)] == []


@pytest.mark.req("S10", "P4")
def test_a_line_that_changes_something_or_is_not_understood_is_refused() -> None:
    assert [line for line in NOT if is_read_only(line)] == []


@pytest.mark.req("S10", "P4")
@every_row("line", list(ODD.values()))
def test_odd_characters_and_sizes_are_refused(line: str) -> None:
    assert not is_read_only(line)


def test_the_tables_are_as_long_as_they_must_be() -> None:
    assert len(READ_ONLY) == len(set(READ_ONLY)) >= 150
    assert len(NOT) == len(set(NOT)) >= 900


@pytest.mark.req("S10")
@pytest.mark.parametrize("line", ("", " ", "\n", "# a comment"))
def test_a_line_without_a_command_reads_only(line: str) -> None:
    assert is_read_only(line)


@pytest.mark.req("S10")
@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_any_text_is_judged_without_an_error(line: str) -> None:
    assert is_read_only(line) in {True, False}


_words = st.sampled_from(
    "ls cat rm find -delete -exec sort -o x uniq git log diff --output=x sed -n 3p -i > < >> | || && & ; $( ` ) ( { } "
    "' "
    '" \\ \n $X FOO=1 * ? [ ] [[ ]] test printf -v # ! if then fi a.txt /dev/null 2>&1 <<E E'.split(" ")
)


@pytest.mark.req("S10")
@given(st.lists(_words, max_size=9).map(" ".join))
def test_commands_of_shell_words_are_judged(line: str) -> None:
    verdict = is_read_only(line)
    assert verdict in {True, False}
    if "rm" in line.split() and verdict:
        words = line.split()
        assert words[0] != "rm", "a command called rm was taken for reading"


@pytest.mark.req("S10")
@given(st.sampled_from(sorted(PURE - {"cd", "type", "test"})), st.sampled_from(NOT))
def test_a_harmless_command_in_front_hides_nothing(harmless: str, line: str) -> None:
    if not is_read_only(line):
        assert not is_read_only(f"{harmless} && {line}")


_harm = st.sampled_from(
    (
        *("rm x", "touch x", "tee x", "sort -o x a", "find . -delete", "git log --output=x", "sed -i 3p a", "uniq a b"),
        *("git commit", "x=1", "printf -v 'a[$(rm x)]' y", "printf %n PATH", "tail -f a", "rg --pre ./x a", "sh a.sh"),
        *("[[ _ -eq 0 ]]", "f() { ls; }", "for a in b; do ls; done", "cat <<E\nE", "cat <(ls)", "ls > x", "eval ls"),
    )
)
_shell = st.sampled_from(
    (
        *(
            "{}",
            "ls; {}",
            "ls && {}",
            "ls || {}",
            "ls | {}",
            "ls |& {}",
            "ls & {}",
            "ls\n{}",
            "ls # a\n{}",
            "({})",
            "! {}",
        ),
        *("echo $({})", 'echo "$({})"', "echo `{}`", 'echo "a $(echo "$({})")"', "cat < a; {}", "ls 2>/dev/null; {}"),
        *("{{ {}; }}", "if {}; then ls; fi", "time {}", "env {}", "command {}", "exec {}", "nohup {}", "A=1 {}"),
        *("ls > /dev/null; {}", "echo 'a' ; {}", 'echo "a#"; {}', "echo a\\ b; {}", "[ -f a ] && {}", "<a {}"),
    )
)


@pytest.mark.req("S10", "P4")
@given(_harm, st.lists(_shell, max_size=4))
def test_no_dress_makes_a_writing_command_a_reading_one(harm: str, dresses: list[str]) -> None:
    line = harm
    for dress in dresses:
        line = dress.format(line)
    assert not is_read_only(line)


_options = st.sampled_from(
    (
        *(
            ("find . ", "-delete"),
            ("find . ", "-exec"),
            ("sort a ", "-o"),
            ("sort a ", "--output=x"),
            ("rg a ", "--pre"),
        ),
        *(("git log ", "--output=x"), ("git diff ", "--ext-diff"), ("git grep x ", "-Oless"), ("tree ", "-o")),
    )
)


@pytest.mark.req("S10", "P4")
@given(_options, st.data())
def test_no_quoting_hides_an_option(command: tuple[str, str], data: st.DataObject) -> None:
    program, option = command
    quotes = st.sampled_from(("{}", "'{}'", '"{}"', "\\{}", "''{}", '""{}', "{}''", "$'{}'", '$"{}"', "$(echo {})"))
    hidden = "".join(data.draw(quotes).format(sign) for sign in option)
    assert not is_read_only(program + hidden)


@pytest.mark.req("S10", "P4")
def test_what_is_allowed_leaves_no_trace(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    names = ["a", "b", "a.py", "b.py", "a.txt", "README.md", "src/a.py", "-delete", "-odd-name", "-o", "--pre=x", "in1"]
    for name in names:
        (tree / name).write_text("def a():\n    b\n" * 5)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["commit", "-qm", "y", "--allow-empty"]):
        person = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", "-C", str(tree), *person, *command], check=True)
    before = photograph(tree)
    script = "\n".join(f"( {line}\n) </dev/null >/dev/null 2>&1" for line in READ_ONLY if line != "uniq -c")
    variables = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    subprocess.run(["bash", "-c", script], cwd=tree, check=False, timeout=50, env=variables)
    assert photograph(tree) == before


def photograph(tree: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


_PIECES: Final = (
    *" \t\n'\"\\`$(){}[]<>|&;#!*?~=@+-,:.^%/012a",
    *(
        "$(",
        "${",
        "((",
        "))",
        "<(",
        "<<<",
        "[[ ",
        " ]]",
        "[ ",
        " ]",
        "&&",
        "||",
        "|&",
        "2>&1",
        ">/dev/null",
        "$'",
        "\\\n",
    ),
    *("W", " W ", "\nW\n", ";W;", "`true`", "$(true)", "-o", "-v", " -eq ", "%n", "! ", "() ", "@(", "{ ", "_"),
)
_NAMES: Final = ("printf", "[", *sorted(PURE | set(CHECKED)))
_PRELUDE: Final = "\n".join(
    (
        r"""tell() { local IFS=$'\x1f'; builtin printf '%s\x1e' "$*" >> "$TOLD"; }""",
        """command_not_found_handle() { tell "NOT FOUND" "$@"; }""",
        *(f"""function {name} {{ tell {name} "$@"; builtin echo a -delete b; (( $# % 2 )); }}""" for name in _NAMES),
        r"""trap '[[ $IFS == $'"' \t\n'"' && $PATH == /nowhere && ! -v A && ! -v a ]] || tell VARIABLE' EXIT""",
    )
)


def damaged(chance: random.Random) -> str:
    """A line of the tables, or two, with up to four signs put in, taken out or exchanged."""
    line = list(chance.choice(READ_ONLY if chance.random() < 0.6 else NOT))
    if chance.random() < 0.3:
        line += [chance.choice((" ", "\n", ";", "|", "&&")), *chance.choice(READ_ONLY + NOT)]
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(line) + 1)
        line[at : at + chance.randint(0, 1)] = chance.choice((chance.choice(_PIECES), ""))
    return "".join(line)


def allowed(words: list[str]) -> bool:
    """Whether the check allows a command that is divided into words already."""
    name, arguments = words[0], words[1:]
    if name == "printf":
        return not arguments or prints("raw_string", shlex.quote(arguments[0]))
    return name in PURE or name == "[" or (name in CHECKED and CHECKED[name](arguments))


def ran(line: str, home: Path) -> list[list[str]]:
    """What bash runs of a line, each command as a list of words."""
    told, prelude = home / "told", home / "prelude"
    told.write_bytes(b"")
    prelude.write_text(_PRELUDE)
    variables = {"PATH": "/nowhere", "BASH_ENV": str(prelude), "TOLD": str(told)}
    command = ["/bin/bash", "-c", line]
    subprocess.run(
        command, cwd=home / "tree", env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return [each.split("\x1f") for each in told.read_text(errors="replace").split("\x1e")[:-1]]


def wrong(line: str, home: Path) -> bool:
    """Whether bash runs anything of a line that the check would not allow, or makes a file."""
    tree = home / "tree"
    before = sorted(tree.iterdir())
    return not all(map(allowed, ran(line, home))) or sorted(tree.iterdir()) != before


def damaged_and_allowed(seed: int, number: int) -> list[str]:
    """So many lines that the check allows, each of another shape."""
    chance, found = random.Random(seed), dict[str, str]()
    while len(found) < number:
        if is_read_only(line := damaged(chance)):
            found.setdefault(re.sub(r"[A-Za-z0-9_.]+", "a", line), line)
    return list(found.values())


def soak(seed: int) -> object:
    return pytest.param(seed, 2_000, marks=pytest.mark.soak)


@pytest.mark.req("S10", "P4")
@pytest.mark.parametrize(("seed", "number"), ((0, 60), *map(soak, range(1, 6))))
def test_bash_runs_only_what_the_check_allows(tmp_path: Path, seed: int, number: int) -> None:
    (tmp_path / "tree").mkdir()
    for name in ("a", "b", "-delete", "-o", "-v", "W", "x"):
        (tmp_path / "tree" / name).touch()
    assert [line for line in damaged_and_allowed(seed, number) if wrong(line, tmp_path)] == []


BUILTINS = frozenset("echo printf test [ true false cd pwd type".split())
FIRST = (
    "ls ",
    "cat ",
    "echo ",
    "sort a ",
    "[[ ",
    "[ ",
    "test ",
    "printf ",
    "git log ",
    "find . ",
    "uniq ",
    "sed -n ",
    "",
)
LAST = (
    "",
    "; touch owned",
    "\ntouch owned",
    " touch owned",
    "'touch owned'",
    '"$(touch owned)"',
    " -o owned",
    " -delete",
)
PIECES = [
    *"ls cat echo sort find git log uniq test [ ] [[ ]] printf cd grep sed -n 3p owned _ PWD x[_] -eq 0 1".split(),
    *"-o -delete -i -v -exec --output=x < > | & && || ; # ! <<< 2>&1 >/dev/null </dev/null * ? ~ , .. = a b".split(),
    *"' \" \\ $ ` ( ) { } $' $\" \\' \\\" ${ (( )) $(( <( <<E E % %n if then fi time \\\\ é 0< 1> <& >& -".split(),
    *("touch owned", "$(touch owned)", "`touch owned`", "a[$(touch owned)]", "\n", " ", "\t"),
    *("é%n", "PATH", "-?", "?v", "a*", "* ", "{a,%n}", "{-v,x}", '"-v"', "DIRSTACK[_]", "'a[$(touch owned)]'"),
]
FILES = ("a", "b", "-v", "a%n", "BASH_VERSINFO[$(touch owned)]", "ax[$(touch owned)]")
"""What is there: some are called so that a pattern becomes an option, a format or a subscript."""


def line(dice: random.Random) -> str:
    """One line of random pieces, most of them with something in it that writes."""
    pieces = [dice.choice(PIECES) + dice.choice(("", " ", "")) for _ in range(dice.randint(2, 12))]
    return "".join([dice.choice(FIRST), *pieces, dice.choice(LAST)])


def random_allowed_lines(dice: random.Random, count: int) -> list[str]:
    """As many random lines that the check allows."""
    found: list[str] = []
    while len(found) < count:
        tried = line(dice)
        if is_read_only(tried):
            found.append(tried)
    return found


def calls_of(lines: list[str], folder: Path) -> list[tuple[str, list[str]]]:
    """Every program that bash starts for these lines, with its arguments: (the line, [program, argument ...])."""
    log = folder.with_name("log")
    notes = 'printf "%s\\0" "@{0}" "$@" "@end" >&9; return 0'
    programs = sorted((PURE | set(CHECKED) | {"touch", "owned"}) - BUILTINS)
    shims = [f"{name}() {{ {notes.format(name)}; }}" for name in programs]
    shims += [f"command_not_found_handle() {{ {notes.format('unknown')}; }}", f"exec 9>{shlex.quote(str(log))}"]
    runs = [
        f'printf "%s\\0" @line {number} >&9; ( eval {shlex.quote(each)}\n[[ $PATH == /nowhere ]] || touch PATH'
        " ) </dev/null >/dev/null 2>&1"
        for number, each in enumerate(lines)
    ]
    script = "\n".join([*shims, "PATH=/nowhere", *runs])
    subprocess.run(["bash", "-s"], input=script.encode(), cwd=folder, env={"LANG": "C.UTF-8"}, check=False, timeout=120)
    return _read(log.read_bytes().decode(errors="replace").split("\0"), lines)


def _read(words: list[str], lines: list[str]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    current, call = "", None
    following = iter(words)
    for word in following:
        if word == "@line":
            current, call = lines[int(next(following))], None
        elif word == "@end" and call is not None:
            found.append((current, call))
            call = None
        elif call is None and word.startswith("@"):
            call = [word[1:]]
        elif call is not None:
            call.append(word)
    return found


def seen(call: list[str]) -> bool:
    """Whether a program may run with these arguments."""
    name, *arguments = call
    return name in PURE or (name in CHECKED and CHECKED[name](arguments))


def hold(seed: int, count: int, folder: Path) -> None:
    """Nothing but what may run is run by so many allowed lines, and no file is made."""
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"{name}\n")
    lines = random_allowed_lines(random.Random(seed), count)
    calls = calls_of(lines, folder)
    assert len({where for where, _ in calls}) > count // 10, "the lines hardly run anything"
    assert [(where, call) for where, call in calls if not seen(call)] == []
    assert {path.name for path in folder.iterdir()} == set(FILES)


@pytest.mark.req("S10", "P4")
def test_bash_runs_nothing_that_the_check_has_not_seen_in_a_daily_sample(tmp_path: Path) -> None:
    hold(11, 80, tmp_path / "tree")


@pytest.mark.long
@pytest.mark.req("S10", "P4")
@pytest.mark.parametrize("seed", range(20, 25))
def test_bash_runs_nothing_that_the_check_has_not_seen_in_many_lines(tmp_path: Path, seed: int) -> None:
    hold(seed, 800, tmp_path / "tree")

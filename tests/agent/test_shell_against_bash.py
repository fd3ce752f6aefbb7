"""What the static check allows, as bash itself reads it: no program runs that the check has not seen as it runs (S10).

Random lines of the shell's own signs are judged; each that is allowed runs in bash, where every program is a function
that notes its arguments. A program or an option that the parser did not see is found out.
"""

import random
import shlex
import subprocess
from pathlib import Path

import pytest

from bot.agent.permissions.shell_policy import CHECKED, PURE, is_read_only

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


def allowed(dice: random.Random, count: int) -> list[str]:
    """As many random lines that the check allows."""
    found: list[str] = []
    while len(found) < count:
        tried = line(dice)
        if is_read_only(tried):
            found.append(tried)
    return found


def ran(lines: list[str], folder: Path) -> list[tuple[str, list[str]]]:
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
    lines = allowed(random.Random(seed), count)
    calls = ran(lines, folder)
    assert len({where for where, _ in calls}) > count // 10, "the lines hardly run anything"
    assert [(where, call) for where, call in calls if not seen(call)] == []
    assert {path.name for path in folder.iterdir()} == set(FILES)


@pytest.mark.req("S10", "P4")
def test_bash_runs_nothing_that_the_check_has_not_seen(tmp_path: Path) -> None:
    """A sample with a seed of its own, every day the same."""
    hold(11, 80, tmp_path / "tree")


@pytest.mark.long
@pytest.mark.req("S10", "P4")
@pytest.mark.parametrize("seed", range(20, 25))
def test_bash_runs_nothing_that_the_check_has_not_seen_in_many_lines(tmp_path: Path, seed: int) -> None:
    """The same with more lines and other dice."""
    hold(seed, 800, tmp_path / "tree")

"""bash itself runs nothing but what the check took for reading, whatever a line looks like (S10, P4).

Lines are made from those of the tables by small damage. Those that the check allows are run by bash, in which every
program is a function that tells its name and arguments as bash divided them: the check must allow these as well.
"""

import random
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

import pytest

from bot.agent.permissions.shell_policy import CHECKED, PURE, is_read_only, prints
from tests.agent.test_shell_policy import NOT, READ_ONLY

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
    """No damage to a line hides a command, an option or a file from the check: a sample, and the campaign."""
    (tmp_path / "tree").mkdir()
    for name in ("a", "b", "-delete", "-o", "-v", "W", "x"):
        (tmp_path / "tree" / name).touch()
    assert [line for line in damaged_and_allowed(seed, number) if wrong(line, tmp_path)] == []

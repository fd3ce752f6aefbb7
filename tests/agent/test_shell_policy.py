"""Which shell lines are known to be read-only, and every trick that must not be taken for one (S10, P4)."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions.shell_policy import LONGEST, PURE, is_read_only
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
    """What people look around with runs in plan mode."""
    assert [line for line in READ_ONLY if not is_read_only(line)] == []


@pytest.mark.req("S10", "P4")
def test_any_other_line_is_not() -> None:
    """What changes something, could, or is not understood is refused."""
    assert [line for line in NOT if is_read_only(line)] == []


@pytest.mark.req("S10", "P4")
@every_row("line", list(ODD.values()))
def test_odd_lines_are_not(line: str) -> None:
    """Characters that the parser and bash read in different ways, and sizes that nobody types."""
    assert not is_read_only(line)


def test_the_tables_are_as_long_as_they_must_be() -> None:
    """At least 150 lines that read and 900 that do not, none of them twice."""
    assert len(READ_ONLY) == len(set(READ_ONLY)) >= 150
    assert len(NOT) == len(set(NOT)) >= 900


@pytest.mark.req("S10")
@pytest.mark.parametrize("line", ("", " ", "\n", "# a comment"))
def test_nothing_reads_only(line: str) -> None:
    """A line without a command changes nothing."""
    assert is_read_only(line)


@pytest.mark.req("S10")
@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_any_text_is_judged(line: str) -> None:
    """Whatever the model writes, there is an answer: no text raises."""
    assert is_read_only(line) in {True, False}


_words = st.sampled_from(
    "ls cat rm find -delete -exec sort -o x uniq git log diff --output=x sed -n 3p -i > < >> | || && & ; $( ` ) ( { } "
    "' "
    '" \\ \n $X FOO=1 * ? [ ] [[ ]] test printf -v # ! if then fi a.txt /dev/null 2>&1 <<E E'.split(" ")
)


@pytest.mark.req("S10")
@given(st.lists(_words, max_size=9).map(" ".join))
def test_commands_of_shell_words_are_judged(line: str) -> None:
    """Neither do lines of the shell's own words; and what is refused stays refused behind a harmless command."""
    verdict = is_read_only(line)
    assert verdict in {True, False}
    if "rm" in line.split() and verdict:
        words = line.split()
        assert words[0] != "rm", "a command called rm was taken for reading"


@pytest.mark.req("S10")
@given(st.sampled_from(sorted(PURE - {"cd", "type", "test"})), st.sampled_from(NOT))
def test_a_harmless_command_in_front_hides_nothing(harmless: str, line: str) -> None:
    """A line that is refused alone is refused behind another command too."""
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
    """Whatever stands around a command that is refused, and however deep, the line is refused."""
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
    """An option is seen through quotes, backslashes, empty strings and pieces of words."""
    program, option = command
    quotes = st.sampled_from(("{}", "'{}'", '"{}"', "\\{}", "''{}", '""{}', "{}''", "$'{}'", '$"{}"', "$(echo {})"))
    hidden = "".join(data.draw(quotes).format(sign) for sign in option)
    assert not is_read_only(program + hidden)


@pytest.mark.req("S10", "P4")
def test_what_is_allowed_leaves_no_trace(tmp_path: Path) -> None:
    """bash runs every allowed line in a folder full of files that are called like options: nothing changes."""
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

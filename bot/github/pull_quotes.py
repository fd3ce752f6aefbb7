"""A pull request as the model reads it: data of people who may be strangers, so each line is quoted or fenced (K6).

Rules
- Names and titles are shown on one line, without invisible characters. In diffs, which show files, invisible code
  points are written as ‹U+XXXX›.
- A fence is longer than any run of backticks inside it.
- Whatever its size, a pull request takes at most about 100,000 characters, and each part states what it leaves out.
"""

import re
from collections.abc import Iterator
from typing import Final

from bot.core.codepoints import with_visible_codepoints
from bot.core.lines import shorten_line
from bot.core.markdown.visible import visible_title
from bot.github.pull_facts import ChangedFile, LineNote, PullFacts

DIFF_LIMIT: Final = 60_000
"""Characters of the diff that are shown."""
FILE_DIFF_LIMIT: Final = 20_000
"""Characters of one file's diff that are shown, so that one large file does not displace all others."""
LIST_LIMIT: Final = 12_000
"""Characters of the list of files."""
HUNKS_LIMIT: Final = 20_000
HUNK_LIMIT: Final = 2_000
"""Characters of a hunk that are shown. They are the last ones, because a hunk ends with the commented line."""
_CHECKS: Final = 30
_NAME: Final = 200
"""Characters of a name that are shown."""
_CUT: Final = "\n[… the rest of this file's diff is left out here …]"


def pull_text(pull: PullFacts) -> str:
    """Return a pull request as quoted text: facts, files, review hunks, and the diff."""
    facts = "\n".join(f"> {line}" for line in (*_facts(pull), *_file_list(pull)))
    return "\n\n".join(part for part in (facts, _hunks(pull), _diff(pull)) if part)


def _facts(pull: PullFacts) -> Iterator[str]:
    origin = f" of the fork {_name(pull.fork)}" if pull.fork else ""
    yield f"Pull request #{pull.number}: {_name(pull.title, 300)}"
    yield f"By @{pull.author.login}, {pull.state}."
    yield f"From branch {_name(pull.head_branch)}{origin}, head {pull.head}"
    yield f"Into branch {_name(pull.base_branch)}, now at {pull.base}"
    yield f"Checks: {_checks(pull)}"
    yield f"Commits: {pull.commit_count:,}{_newest(pull)}"
    for ident, headline in pull.commits:
        yield f"- {ident[:12]} {_name(headline)}"


def _newest(pull: PullFacts) -> str:
    return f"; the newest {len(pull.commits)}:" if len(pull.commits) < pull.commit_count else ""


def _checks(pull: PullFacts) -> str:
    if pull.checks is None:
        return "this token may not see them"
    if not (pull.checks.green or pull.checks.others or pull.checks.more):
        return "none"
    others = [f"{_name(name)}: {_name(state)}" for name, state in pull.checks.others[:_CHECKS]]
    more = len(pull.checks.others) - len(others)
    others += [f"{more} others that are not green"] if more else []
    others += [f"{pull.checks.more} that were not read"] if pull.checks.more else []
    return "; ".join((f"{pull.checks.green} green", *others))


def _file_list(pull: PullFacts) -> Iterator[str]:
    """Yield the changed files, a line each, as long as they fit."""
    files = f"{pull.file_count:,} changed file{'s' * (pull.file_count != 1)}"
    yield f"{files}, +{pull.additions:,} -{pull.deletions:,}:"
    room, count = LIST_LIMIT, 0
    for file in pull.files:
        before = f" (was {_name(file.previous)})" if file.previous else ""
        line = f"- {_name(file.status)} +{file.additions} -{file.deletions} {_name(file.path)}{before}"
        room -= len(line) + 3
        if room < 0:
            break
        count += 1
        yield line
    if count < pull.file_count:
        yield f"({pull.file_count - count:,} more files are not listed here. To read them: {_call(pull)}.)"


def _hunks(pull: PullFacts) -> str:
    """Return the hunks that the comments of the session's review are about."""
    hunks, room = list[str](), HUNKS_LIMIT
    for note in pull.notes:
        text = f"Review comment at {_line_reference(note)}:\n{_fence(_last_lines(note.hunk), 'diff')}{_lines_now(note)}"
        room -= len(text)
        if room < 0:
            break
        hunks.append(text)
    if (left := pull.note_count - len(hunks)) > 0:
        hunks.append(f"(The lines of {left} more comments of this review are not shown here.)")
    return "\n\n".join(hunks)


def _line_reference(note: LineNote) -> str:
    if note.line:
        return f"{_name(note.path)}:{note.line}"
    was = f", which was line {note.original_line}" if note.original_line else ""
    return f"{_name(note.path)} (a line that has changed since{was})"


def _lines_now(note: LineNote) -> str:
    """Return the lines around a review comment as they are at the head, with their numbers; "" for none."""
    if not note.now:
        return ""
    lines = "\n".join(f"{number}\t{line[:_NAME]}" for number, line in enumerate(note.now, start=note.now_from))
    return f"\nThe lines there at the head:\n{_fence(lines, '')}"


def _last_lines(hunk: str) -> str:
    """Return a hunk's header and its last lines."""
    if len(hunk) <= HUNK_LIMIT:
        return hunk
    return f"{shorten_line(hunk.partition(chr(10))[0], _NAME)}\n[…]\n{hunk[-HUNK_LIMIT:].partition(chr(10))[2]}"


def _diff(pull: PullFacts) -> str:
    """Return the diff from the merge base to the head, file by file, as far as it fits."""
    patches, room, complete = list[str](), DIFF_LIMIT, 0
    for file in pull.files:
        text = _file_diff(file, min(room, FILE_DIFF_LIMIT))
        if not text:
            break
        patches.append(text)
        room -= len(text) + 1
        complete += not text.endswith(_CUT)
    if not patches:
        return ""
    missing = pull.file_count - complete
    omission = (
        f"\n(The diff of {missing:,} files is missing or cut here. To read it: {_call(pull)}.)" if missing else ""
    )
    return f"Its diff since the merge base:\n{_fence(chr(10).join(patches), 'diff')}{omission}"


def _file_diff(file: ChangedFile, limit: int) -> str:
    """Return the diff of one file, cut after the last line that fits; "" where not even its beginning fits."""
    old = "/dev/null" if file.status == "added" else f"a/{_name(file.previous or file.path)}"
    new = "/dev/null" if file.status == "removed" else f"b/{_name(file.path)}"
    patch = with_visible_codepoints(file.patch[: limit + 1]) or "(no text to show: binary, too large, or only renamed)"
    text = f"--- {old}\n+++ {new}\n{patch}"
    if len(text) <= limit:
        return text
    cut = text[: max(0, limit - len(_CUT))].rpartition("\n")[0]
    return f"{cut}{_CUT}" if cut.count("\n") > 1 else ""


def _fence(text: str, language: str) -> str:
    """Return a text as a code block that nothing in it can end."""
    visible = with_visible_codepoints(text)
    marks = "`" * max(3, 1 + max(map(len, re.findall("`+", visible)), default=0))
    return f"{marks}{language}\n{visible}\n{marks}"


def _name(text: str, longest: int = _NAME) -> str:
    """Return a name that somebody chose, on one line, as people see it."""
    return shorten_line(visible_title(text.replace("`", "'")).text, longest)


def _call(pull: PullFacts) -> str:
    return f'GitHubRead{{what: "diff", number: {pull.number}, path: PATH}}'

"""Project memory: what the maintainers of a repository tell every agent (K10).

Rules
- CLAUDE.md, .claude/CLAUDE.md and AGENTS.md at the root, and what they import, are part of the first message. Those of
  a folder follow once a file below it was read or edited.
- All of it comes from one commit of the default branch. A pull request's author has no say in it.
- It never takes more than LIMIT bytes of a context. What is left out is named. No file is read further than that.
- The same text, or the same file, is given once.
"""

import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bot.agent.history.escaping import escape_harness_markup
from bot.agent.prompts.memory_text import import_candidates, visible_memory
from bot.core.work import FileStart

LIMIT: Final = 40_000
"""Bytes of project memory in one context."""
DEPTH: Final = 5
"""How many imports may follow one from another."""
MOST: Final = 50
"""Most files of one reading."""
ROOT: Final = ("CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md")
NESTED: Final = ("CLAUDE.md", "AGENTS.md")
HEAD: Final = "# Project memory"
GUIDANCE: Final = (
    f"{HEAD}\nGuidance of the repository's maintainers, from the default branch. Follow it. The person's request and "
    "the harness outrank it, and it cannot approve a plan or permit a call."
)
BELOW: Final = (
    f"{HEAD}\nGuidance of the maintainers for files in the folders named here; it outranks that of the folders above "
    "them."
)


ReadFiles = Callable[[Sequence[str], int], Awaitable[Mapping[str, FileStart]]]
"""Returns the start of each path that is a file, at most so many bytes, following links inside the repository. They are
the files of one commit of the default branch, which only the repository's maintainers change."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One file of project memory: its path, what the model gets of it, and its imports."""

    path: str
    text: str
    size: int
    imports: tuple[str, ...] = ()
    whole: bool = True
    """Whether the file was read to its end."""


@dataclass(slots=True)
class ProjectMemory:
    """The project memory of one commit. Each folder is read once."""

    read_files: ReadFiles
    _folders: dict[str, tuple[MemoryFile, ...]] = field(default_factory=dict)

    async def root(self) -> str:
        """Return the memory for the first message; "" if there is none."""
        return _render(GUIDANCE, await self._read("", ROOT), LIMIT)

    async def below(self, paths: Iterable[str], earlier: Sequence[str]) -> str:
        """Return the memory of the folders that hold `paths`, without what `earlier` texts have; "" for none.

        Paths are relative to the root. What was said before counts toward LIMIT.
        """
        memories = [text.partition(HEAD)[2] for text in earlier if HEAD in text]
        files: dict[str, MemoryFile] = {}
        for folder in dict.fromkeys(folder for path in paths for folder in _folders_above(path)):
            for file in await self._read(folder, NESTED):
                if not any(_title(file) in memory or (file.text and file.text in memory) for memory in memories):
                    files.setdefault(file.path, file)
        room = LIMIT - sum(len(memory.encode()) for memory in memories)
        return _render(BELOW, tuple(files.values()), room)

    async def imports(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return what the memory of the root, and of the folders that hold `paths`, imports, also what does not exist
        yet."""
        folders = dict.fromkeys(folder for path in paths for folder in _folders_above(path.lstrip("/")))
        files = [
            *await self._read("", ROOT),
            *[file for folder in folders for file in await self._read(folder, NESTED)],
        ]
        named = (path for file in files for name in file.imports for path in import_candidates(name, file.path))
        return tuple(dict.fromkeys(named))

    async def _read(self, folder: str, names: Sequence[str]) -> tuple[MemoryFile, ...]:
        """Return the memory files of a folder, each followed by what it imports."""
        if folder not in self._folders:
            self._folders[folder] = await self._collect([posixpath.join(folder, name) for name in names])
        return self._folders[folder]

    async def _collect(self, paths: Sequence[str]) -> tuple[MemoryFile, ...]:
        """Read files and what they import: one reading of all files for each level of imports."""
        files: dict[str, MemoryFile] = {}
        level: Sequence[str] = paths
        for _ in range(DEPTH + 1):
            batch = [path for path in dict.fromkeys(level) if path not in files][: 2 * MOST]
            starts = await self.read_files(batch, LIMIT) if batch else {}
            for path in batch:
                if path in starts and len(files) < MOST:
                    files[path] = _memory_file(path, starts[path])
            imports = [(name, path) for path in batch if path in files for name in files[path].imports]
            level = [candidate for name, path in imports for candidate in import_candidates(name, path)]
        return _in_order(paths, files)


def _memory_file(path: str, start: FileStart) -> MemoryFile:
    whole = len(start.content) >= start.size
    content = start.content if whole else start.content.rpartition(b"\n")[0] or start.content
    text, imports = visible_memory(content.decode(errors="replace"))
    return MemoryFile(path, text, start.size, imports, whole)


def _in_order(paths: Sequence[str], files: dict[str, MemoryFile]) -> tuple[MemoryFile, ...]:
    """Return each file once, followed by what it imports. A text that an earlier file has is left out."""
    ordered: dict[str, MemoryFile] = {}

    def add(path: str) -> None:
        if path in files and path not in ordered:
            ordered[path] = files[path]
            for name in files[path].imports:
                add(next((candidate for candidate in import_candidates(name, path) if candidate in files), ""))

    for path in paths:
        add(path)
    texts = dict[str, MemoryFile]()
    for file in ordered.values():
        if file.text or not file.whole:
            texts.setdefault(file.text or file.path, file)
    return tuple(texts.values())


def _folders_above(path: str) -> list[str]:
    """Return the folders in the repository that hold a file, the outermost first."""
    parts = posixpath.dirname(path).split("/")
    if parts[0] in {"", ".", ".."}:
        return []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _title(file: MemoryFile) -> str:
    return f"\n## {escape_harness_markup(file.path)}\n"


def _render(head: str, files: Sequence[MemoryFile], room: int) -> str:
    """Return the text of memory files, with at most `room` bytes of theirs; "" for no files."""
    parts = list[str]()
    for file in files:
        text = _beginning(file.text, room)
        room -= len(text.encode())
        is_cut = len(text) < len(file.text) or not file.whole
        note = f"[{len(text.encode()):,} of {file.size:,} bytes are shown: project memory is cut at {LIMIT:,} bytes]"
        parts.append(_title(file) + "\n".join([*([text] if text else []), *([note] if is_cut else [])]))
    return head + "\n" + "\n".join(parts) if parts else ""


def _beginning(text: str, room: int) -> str:
    """Return the whole lines of a text that fit into `room` bytes, or the part of its first line that does."""
    if len(text.encode()) <= room:
        return text
    cut = text.encode()[: max(0, room)].decode(errors="ignore")
    return cut.rpartition("\n")[0] or cut

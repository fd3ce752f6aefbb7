"""NotebookRead and NotebookEdit: a notebook as cells, with the text and images of their outputs.

The format: https://nbformat.readthedocs.io/en/latest/format_description.html. Cells have ids from 4.5 on; a cell
without a valid, unique id is called ``cell-N``, counted from 0.

Rules
- A code cell whose source is replaced loses its outputs and its execution count, since they no longer belong to it.
- A notebook is written as `json` writes it, with the file's own indentation, line ends, and escapes. The answer says so
  if that changes more than the cell.
"""

import base64
import binascii
import json
import math
import os
import re
from collections import Counter
from typing import Any, Final, NamedTuple

from bot.toolhost.files import BOM, IMAGE_BYTES, RESULT_BYTES, checked_image_block, media_type
from bot.toolhost.operation import (
    Arguments,
    Before,
    Call,
    Host,
    ResolvedPath,
    check_stamp,
    encode_text,
    missing_message,
    read_current,
    replace_file,
    resolve_writable,
)
from bot.toolhost.protocol import Failure, OperationResult

IMAGES: Final = 10
KINDS: Final = ("code", "markdown", "raw")
_MOST_CELLS: Final = 20_000
_MOST_VALUES: Final = 1_000_000
"""The most brackets and commas of a file. Each may take a hundred bytes of memory once it is parsed."""
_SOURCE: Final = 20_000
_OUTPUT: Final = 4_000
_OUTPUTS: Final = 20
_ANSI: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INDENT: Final = re.compile(rb"[{\[]\r?\n([ \t]*)")
_ESCAPED: Final = re.compile(rb"\\u(?!00[01])[0-9a-fA-F]{4}")

Cell = dict[str, Any]


def read_notebook(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Return the cells of a notebook, or one of them, with their outputs; images are blocks."""
    place = host.root.resolve(arguments["notebook_path"])
    before, notebook = _load(host, place)
    ids = notebook.ids()
    cell_id = arguments.get("cell_id")
    chosen = [notebook.position(cell_id)] if cell_id else range(len(ids))
    view = _View()
    texts: list[str] = []
    size = 0
    for n in chosen:
        cell = view.cell(notebook.cells[n], ids[n], whole=bool(cell_id))
        size += len(cell.encode())
        if size > RESULT_BYTES and texts:
            remaining = f"{ids[n]} to {ids[-1]}" if n + 1 < len(ids) else ids[n]
            texts.append(f"({len(ids) - n} more cells, {remaining}: give a cell_id to see one)")
            break
        texts.append(cell)
    answer = "\n".join(texts) or f"({place.name} has no cells)"
    return OperationResult(answer, blocks=tuple(view.blocks), stamps={place.name: before.stamp})


def edit_notebook(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Replace, insert, or delete one cell."""
    place = resolve_writable(host, arguments["notebook_path"])
    encode_text(arguments.get("new_source") or "")
    with host.writing:
        before, notebook = _load(host, place)
        check_stamp(place, before, arguments.get("stamp"))
        reformats = notebook.write() != before.content
        description = _apply_edit(notebook, arguments)
        stamp = replace_file(host, place, notebook.write(), before.mode)
    note = " The file was formatted in another way; its whole text is now as Python's json writes it." * reformats
    return OperationResult(f"{description} in {place.name}.{note}", stamps={place.name: stamp})


class Notebook(NamedTuple):
    """A notebook, and the bytes of its file, which show how it is written."""

    top: dict[str, Any]
    cells: list[Cell]
    """The cells of `top`, to be changed in place."""
    content: bytes

    def ids(self) -> list[str]:
        """Return the id of every cell."""
        own = [_text(cell, "id") for cell in self.cells]
        count = Counter(own)
        return [id_ if _ID.fullmatch(id_) and count[id_] == 1 else f"cell-{n}" for n, id_ in enumerate(own)]

    def position(self, id_: str) -> int:
        """Return the position of a cell; raises Failure if there is none."""
        ids = self.ids()
        if id_ in ids:
            return ids.index(id_)
        number = re.fullmatch(r"cell-(\d{1,6})", id_)
        if number and int(number[1]) < len(ids):
            return int(number[1])
        choices = ", ".join(ids[:20]) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")
        raise Failure(f"There is no cell {id_[:80]!r}. Cells: {choices or 'none'}.")

    def replace_cell(self, index: int, source: str, kind: str) -> None:
        """Replace the source of a cell and, if it differs, its kind."""
        cell = self.cells[index]
        if kind != cell["cell_type"]:
            cell["cell_type"] = kind
            for name in ("attachments",) if kind == "code" else ("outputs", "execution_count"):
                cell.pop(name, None)
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cell["source"] = source if isinstance(cell.get("source"), str) else _lines(source)

    def insert_cell(self, index: int, source: str, kind: str) -> str:
        """Insert a cell before the one at `index`, and return its id."""
        has_ids = self.top.get("nbformat_minor", 0) >= 5
        id_ = os.urandom(4).hex() if has_ids else f"cell-{index}"
        as_text = bool(self.cells) and isinstance(self.cells[0].get("source"), str)
        cell: Cell = {"cell_type": kind, "metadata": {}, "source": source if as_text else _lines(source)}
        cell |= {"execution_count": None, "outputs": []} if kind == "code" else {}
        cell |= {"id": id_} if has_ids else {}
        self.cells.insert(index, dict(sorted(cell.items())))
        return id_

    def write(self) -> bytes:
        """Return the file's bytes, with the indentation, line ends, and escapes that it has."""
        plain = self.content.removeprefix(BOM)
        found = _INDENT.search(plain)
        indent = found[1].decode() if found else None
        colon = ": " if found or re.match(rb'\{"[^"]*": ', plain) else ":"
        comma = "," if found or colon == ":" else ", "
        escaped = plain.isascii() and _ESCAPED.search(plain) is not None
        try:
            text = json.dumps(self.top, indent=indent, ensure_ascii=escaped, separators=(comma, colon)).encode()
        except UnicodeEncodeError:  # a lone surrogate, which JSON can hold only as an escape
            text = json.dumps(self.top, indent=indent, separators=(comma, colon)).encode()
        end = plain[len(plain.rstrip()) :]
        lines = text.replace(b"\n", b"\r\n") if found and b"\r\n" in found[0] else text
        return (BOM if plain is not self.content else b"") + lines + end


def parse_notebook(content: bytes, name: str) -> Notebook:
    """Parse a notebook; raises Failure if it is not a valid one."""
    try:
        top = _parse_json(content.removeprefix(BOM))
        if not isinstance(top, dict) or top.get("nbformat") != 4:
            raise Failure("nbformat is not 4: upgrade it with `jupyter nbconvert --to notebook`")
        cells = top.get("cells")
        if not isinstance(cells, list):
            raise Failure("it has no list of cells")
        if len(cells) > _MOST_CELLS:
            raise Failure(f"it has more than {_MOST_CELLS:,} cells")
        if any(not isinstance(cell, dict) or cell.get("cell_type") not in KINDS for cell in cells):
            raise Failure("a cell's cell_type is none of " + ", ".join(KINDS))
        if not isinstance(top.get("nbformat_minor", 0), int):
            raise Failure("nbformat_minor is no number")
    except Failure as failure:
        raise Failure(f"{name} is not a notebook that can be worked on: {failure}. Read shows its text.") from None
    return Notebook(top, cells, content)


def _parse_json(content: bytes) -> Any:
    if sum(map(content.count, (b"{", b"[", b","))) > _MOST_VALUES:
        raise Failure("it has too many brackets and commas")
    try:
        return json.loads(content.decode(), object_pairs_hook=_object, parse_float=_number)
    except RecursionError:
        raise Failure("its values are nested too deep") from None
    except ValueError as error:
        raise Failure(f"it is not JSON: {error}") from None


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) < len(members):
        twice = next(name for name, times in Counter(name for name, _ in members).items() if times > 1)
        raise Failure(f"an object has {twice[:80]!r} more than once")
    return value


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Failure(f"the number {text[:20]} is too large")
    return value


def _load(host: Host, place: ResolvedPath) -> tuple[Before, Notebook]:
    if os.path.isdir(place.real):
        raise Failure(f"{place.name} is a folder: give the path of a notebook.")
    before = read_current(host, place)
    if before.content is None:
        raise Failure(f"{missing_message(host.root, place)} Write makes a new one.")
    return before, parse_notebook(before.content, place.name)


def _apply_edit(notebook: Notebook, arguments: Arguments) -> str:
    """Make the requested change, and return a description of it."""
    id_, kind, source = (arguments.get(name) for name in ("cell_id", "cell_type", "new_source"))
    mode = arguments.get("edit_mode") or "replace"
    if kind and kind not in KINDS:
        raise Failure(f"cell_type is one of {', '.join(KINDS)}.")
    if mode == "insert":
        if not kind:
            raise Failure("cell_type is needed to insert a cell: code or markdown.")
        new_id = notebook.insert_cell(notebook.position(id_) + 1 if id_ else 0, source or "", kind)
        return f"Inserted the {kind} cell {new_id} {f'after {id_}' if id_ else 'at the beginning'}"
    if not id_:
        raise Failure(f"cell_id is needed to {mode} a cell: NotebookRead shows them.")
    index = notebook.position(id_)
    if mode == "delete":
        del notebook.cells[index]
        return f"Deleted the cell {id_}"
    cell = notebook.cells[index]
    before = cell["cell_type"]
    if _text(cell, "source") == source and kind in {None, before}:
        raise Failure(f"The cell {id_} has this source already: nothing was changed.")
    notebook.replace_cell(index, source or "", kind or before)
    return f"Replaced the cell {id_}" + (" (its outputs were cleared)" if (kind or before) == before == "code" else "")


class _View:
    """Renders the cells of a notebook, and collects their images up to a limit."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self.room = IMAGE_BYTES

    def cell(self, cell: Cell, id_: str, *, whole: bool) -> str:
        """Return one cell with its outputs; a source that is too long is cut, later if the cell is shown alone."""
        source = _cut(_text(cell, "source"), RESULT_BYTES // 2 if whole else _SOURCE)
        outputs = cell.get("outputs")
        texts = self._outputs(outputs, RESULT_BYTES // 4 if whole else _OUTPUT) if isinstance(outputs, list) else []
        return "\n".join([f'<cell id="{id_}" type="{cell["cell_type"]}">', source, "</cell>", *texts])

    def _outputs(self, outputs: list[Any], most: int) -> list[str]:
        shown = [output for output in outputs[:_OUTPUTS] if isinstance(output, dict)]
        texts = [_cut(_ANSI.sub("", self._output(output)), most) for output in shown]
        texts += [f"({len(outputs) - _OUTPUTS} more outputs)"] if len(outputs) > _OUTPUTS else []
        return [f"<output>\n{output.rstrip()}\n</output>" for output in texts]

    def _output(self, output: dict[str, Any]) -> str:
        match output.get("output_type"):
            case "stream":
                return _text(output, "text")
            case "error":
                return _text(output, "traceback") or f"{_text(output, 'ename')}: {_text(output, 'evalue')}"
            case _:
                return self._display(output.get("data"))

    def _display(self, data: Any) -> str:
        """Return notes on an output's images and its text; without text and images, the names of its types."""
        members = data if isinstance(data, dict) else {}
        notes = [self._add_image(_text(members, kind), kind) for kind in _IMAGES if kind in members]
        kinds = ", ".join(_well_formed(name)[:80] for name in list(members)[:_OUTPUTS])
        hidden = "" if notes else f"(output of type {kinds or 'unknown'}, not shown)"
        return "\n".join(filter(None, [_text(members, "text/plain") or hidden, *notes]))

    def _add_image(self, text: str, kind: str) -> str:
        """Add an image to the blocks, and return a note; the note has the reason if the image is left out."""
        if len(self.blocks) >= IMAGES or len(text) * 3 // 4 > self.room:
            return f"({kind}: left out, too many or too large)"
        try:
            content = base64.b64decode("".join(text.split()), validate=True)
            if media_type(content) != kind:
                return f"({kind}: left out, it is not what it says)"
            self.blocks.append(checked_image_block(content, kind, kind))
        except (binascii.Error, ValueError, Failure):
            return f"({kind}: left out, it is broken or too large)"
        self.room -= len(content)
        return f"({kind}: image {len(self.blocks)} below)"


def _text(owner: dict[str, Any], name: str) -> str:
    """Return a member's text, which may be a list of lines; "" if it is missing."""
    value = owner.get(name)
    if isinstance(value, list):
        value = "".join(line for line in value if isinstance(line, str))
    return _well_formed(value) if isinstance(value, str) else ""


def _well_formed(text: str) -> str:
    """Return a text with surrogates, which JSON escapes can contain, joined to characters or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _lines(source: str) -> list[str]:
    """Split a source into lines that keep their ends, as nbformat writes it."""
    return [line for line in re.split(r"(?<=\n)", source) if line]


def _cut(value: str, most: int) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(value) <= most:
        return value
    half = most // 2
    return f"{value[:half]}\n[... {len(value) - 2 * half:,} characters left out ...]\n{value[-half:]}"

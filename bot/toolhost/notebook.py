"""A notebook: its cells, found by id, and edited so that everything else stays byte for byte.

The format: https://nbformat.readthedocs.io/en/latest/format_description.html. Cells have ids from 4.5 on; a cell
without a valid, unique id is called ``cell-N``, counted from 0.

Rules: a code cell whose source is replaced loses its outputs and its execution count, since they no longer belong to
it. Edits use the file's own indent, line ends, escapes and form of a source (one text or a list of lines).
"""

import json
import os
import re
from collections import Counter
from typing import Any, NamedTuple

from bot.toolhost.files import BOM
from bot.toolhost.json_spans import Composite, JsonSpan, decode_value, parse, split_members
from bot.toolhost.protocol import Failure

KINDS = ("code", "markdown", "raw")
TEXT_BYTES = 1 << 20
_MOST_CELLS = 20_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BREAK = re.compile(rb"(\r?\n)([ \t]*)$")
_ESCAPED = re.compile(rb"\\u(?!00[01])[0-9a-fA-F]{4}")


class Style(NamedTuple):
    """How a file is formatted; `newline` is empty if everything is on one line."""

    newline: bytes
    indent: str
    colon: str
    comma: str
    escaped: bool

    def write(self, value: Any, margin: bytes) -> bytes:
        """Return a value in the file's format, with `margin` before each further line."""
        separators = (self.comma if not self.newline else ",", self.colon)
        indent = self.indent if self.newline else None
        text = json.dumps(value, ensure_ascii=self.escaped, indent=indent, separators=separators)
        return text.encode().replace(b"\n", self.newline + margin)


class Notebook(NamedTuple):
    """A notebook's bytes, split down to its cells."""

    document: JsonSpan
    top: Composite
    cells: Composite
    cells_lead: bytes
    """The white space before the list of cells."""
    style: Style
    has_ids: bool
    bom: bytes

    def ids(self) -> list[str]:
        """Return the id of every cell."""
        own = [member_text(cell, "id") for cell in map(open_object, self.cells.parts)]
        count = Counter(own)
        proper = (id_ if id_ and _ID.fullmatch(id_) and count[id_] == 1 else None for id_ in own)
        return [id_ or f"cell-{n}" for n, id_ in enumerate(proper)]

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

    def with_cells(self, cells: Composite) -> bytes:
        """Return the file's bytes with other cells."""
        top = self.top.put("cells", cells.raw())
        return self.bom + self.document._replace(value=top.raw()).raw()

    def with_replaced_cell(self, index: int, source: str, kind: str | None) -> bytes:
        """Return the file with another source, and optionally another kind, for one cell."""
        part = self.cells.parts[index]
        cell = open_object(part)
        before = member_text(cell, "cell_type")
        if kind and kind != before:
            cell = _drop_foreign_members(cell.put("cell_type", self.style.write(kind, b"")), kind)
        if (kind or before) == "code":
            cell = cell.put("execution_count", b"null").put("outputs", b"[]")
        cell = cell.put("source", self._source_lines(cell, source))
        parts = (*self.cells.parts[:index], part._replace(value=cell.raw()), *self.cells.parts[index + 1 :])
        return self.with_cells(self.cells._replace(parts=parts))

    def without_cell(self, index: int) -> bytes:
        """Return the file without one cell."""
        return self.with_cells(self.cells.drop(index))

    def with_inserted_cell(self, index: int, source: str, kind: str) -> tuple[bytes, str]:
        """Return the file with a new cell before the one at `index`, and the new cell's id."""
        id_ = os.urandom(4).hex() if self.has_ids else f"cell-{index}"
        cell: dict[str, Any] = {"cell_type": kind}
        cell |= {"execution_count": None} if kind == "code" else {}
        cell |= {"id": id_} if self.has_ids else {}
        cell |= {"metadata": {}}
        cell |= {"outputs": []} if kind == "code" else {}
        cell["source"] = _lines(source) if self._writes_line_lists() else source
        style, cells = self.style, self.cells
        if cells.parts:
            lead = cells.parts[0].lead
            return self.with_cells(cells.insert(index, JsonSpan(lead, b"", style.write(cell, _margin(lead))))), id_
        outer = style.newline + _margin(self.cells_lead)
        lead = outer + style.indent.encode() if style.newline else b""
        only = JsonSpan(lead, b"", style.write(cell, _margin(lead)), outer if style.newline else b"")
        return self.with_cells(Composite(b"[", (only,), b"]")), id_

    def _source_lines(self, cell: Composite, source: str) -> bytes:
        """Return a source in the form that the cell uses."""
        old = cell.find("source")
        as_list = old.value.startswith(b"[") if old else self._writes_line_lists()
        margin = _margin(old.lead if old else cell.parts[0].lead)
        return self.style.write(_lines(source) if as_list else source, margin)

    def _writes_line_lists(self) -> bool:
        """Return whether the file writes sources as lists of lines, as most do."""
        sources = (open_object(part).find("source") for part in self.cells.parts[:1])
        return all(source is None or source.value.startswith(b"[") for source in sources)


def parse_notebook(content: bytes, name: str) -> Notebook:
    """Parse a notebook; raises Failure if it is not a valid one."""
    bom = BOM if content.startswith(BOM) else b""
    try:
        document = parse(content.removeprefix(bom))
        top = split_members(document.value)
        major, minor = _number(top, "nbformat"), _number(top, "nbformat_minor")
        if major != 4:
            raise Failure("nbformat is not 4: upgrade it with `jupyter nbconvert --to notebook`")
        member = top.find("cells")
        if member is None or not member.value.startswith(b"["):
            raise Failure("it has no list of cells")
        cells = split_members(member.value)
        if len(cells.parts) > _MOST_CELLS:
            raise Failure(f"it has more than {_MOST_CELLS:,} cells")
        for cell in cells.parts:
            if member_text(open_object(cell), "cell_type") not in KINDS:
                raise Failure("a cell's cell_type is none of " + ", ".join(KINDS))
    except Failure as failure:
        raise Failure(f"{name} is not a notebook that can be worked on: {failure}. Read shows its text.") from None
    return Notebook(document, top, cells, member.lead, _style(content, top, member.lead), minor >= 5, bom)


def open_object(part: JsonSpan) -> Composite:
    """Split a cell or another object into its parts; raises Failure for anything else."""
    if not part.value.startswith(b"{"):
        raise Failure("an object was expected")
    return split_members(part.value)


def member_text(owner: Composite, name: str) -> str:
    """Return a member's text, which may be a list of lines; "" if it is missing, a note if it is too long."""
    member = owner.find(name)
    if member is None:
        return ""
    if len(member.value) > TEXT_BYTES:
        return f"[{len(member.value):,} bytes, too long to be shown]"
    value = decode_value(member.value)
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _drop_foreign_members(cell: Composite, kind: str) -> Composite:
    """Return a cell without the members that its kind may not have."""
    unwanted = {"attachments"} if kind == "code" else {"outputs", "execution_count"}
    for n in reversed(range(len(cell.parts))):
        if cell.parts[n].name() in unwanted:
            cell = cell.drop(n)
    return cell


def _number(top: Composite, name: str) -> int:
    """Return a small number; -1 if there is none."""
    member = top.find(name)
    value = decode_value(member.value) if member and len(member.value) < 10 else None
    return value if isinstance(value, int) else -1


def _style(content: bytes, top: Composite, lead: bytes) -> Style:
    """Return the format in which a file is written."""
    broken = _BREAK.search(lead)
    key = top.parts[0].key
    return Style(
        newline=broken[1] if broken else b"",
        indent=broken[2].decode() if broken else "",
        colon=": " if key.endswith(b" ") else ":",
        comma=", " if any(part.lead == b" " for part in top.parts) else ",",
        escaped=content.removeprefix(BOM).isascii() and _ESCAPED.search(content) is not None,
    )


def _margin(lead: bytes) -> bytes:
    """Return the white space that begins a line at this depth."""
    match = _BREAK.search(lead)
    return match[2] if match else b""


def _lines(source: str) -> list[str]:
    """Split a source into lines that keep their ends, as nbformat writes it."""
    return [line for line in re.split(r"(?<=\n)", source) if line]

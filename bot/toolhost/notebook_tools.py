"""NotebookRead and NotebookEdit: a notebook as cells, with the text and images of their outputs."""

import base64
import binascii
import os
import re
from typing import Any

from bot.toolhost.checkout_paths import ResolvedPath, missing_message
from bot.toolhost.files import RESULT_BYTES
from bot.toolhost.images import IMAGE_BYTES, checked_image_block, media_type
from bot.toolhost.json_spans import Composite, JsonSpan, split_members
from bot.toolhost.notebook import KINDS, Notebook, member_text, open_object, parse_notebook
from bot.toolhost.operation import Arguments, Call, Host
from bot.toolhost.protocol import Failure, OperationResult
from bot.toolhost.storing import Before, check_stamp, encode_text, read_current, replace_file, resolve_writable

IMAGES = 10
_SOURCE = 20_000
_OUTPUT = 4_000
_OUTPUTS = 20
_ANSI = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def read_notebook(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Return the cells of a notebook, or one of them, with their outputs; images are blocks."""
    place = host.root.resolve(arguments["notebook_path"])
    before, notebook = _load(host, place)
    ids = notebook.ids()
    cell_id = arguments.get("cell_id")
    chosen = [notebook.position(cell_id)] if cell_id else range(len(ids))
    view = _View(place.name)
    texts: list[str] = []
    size = 0
    for n in chosen:
        cell = view.cell(notebook.cells.parts[n], ids[n], whole=bool(cell_id))
        size += len(cell.encode(errors="replace"))
        if size > RESULT_BYTES and texts:
            remaining = f"{ids[n]} to {ids[-1]}" if n + 1 < len(ids) else ids[n]
            texts.append(f"({len(ids) - n} more cells, {remaining}: give a cell_id to see one)")
            break
        texts.append(cell)
    answer = "\n".join(texts) or f"({place.name} has no cells)"
    return OperationResult(answer, blocks=tuple(view.blocks), stamps={place.name: before.stamp})


def edit_notebook(host: Host, _call: Call, arguments: Arguments) -> OperationResult:
    """Replace, insert or delete one cell; everything else in the file stays byte for byte."""
    place = resolve_writable(host, arguments["notebook_path"])
    encode_text(arguments.get("new_source") or "")
    with host.writing:
        before, notebook = _load(host, place)
        check_stamp(place, before, arguments.get("stamp"))
        content, description = _apply_edit(notebook, arguments)
        if content == before.content:
            raise Failure(f"The cell has this source already: nothing was changed in {place.name}.")
        stamp = replace_file(host, place, content, before.mode)
    return OperationResult(f"{description} in {place.name}.", stamps={place.name: stamp})


def _load(host: Host, place: ResolvedPath) -> tuple[Before, Notebook]:
    """Read a notebook."""
    if os.path.isdir(place.real):
        raise Failure(f"{place.name} is a folder: give the path of a notebook.")
    before = read_current(host, place)
    if before.content is None:
        raise Failure(f"{missing_message(host.root, place)} Write makes a new one.")
    return before, parse_notebook(before.content, place.name)


def _apply_edit(notebook: Notebook, arguments: Arguments) -> tuple[bytes, str]:
    """Return the content with the requested change, and a description of the change."""
    id_, kind, source = (arguments.get(name) for name in ("cell_id", "cell_type", "new_source"))
    mode = arguments.get("edit_mode") or "replace"
    if kind and kind not in KINDS:
        raise Failure(f"cell_type is one of {', '.join(KINDS)}.")
    if mode == "insert":
        if not kind:
            raise Failure("cell_type is needed to insert a cell: code or markdown.")
        content, new_id = notebook.with_inserted_cell(notebook.position(id_) + 1 if id_ else 0, source or "", kind)
        return content, f"Inserted the {kind} cell {new_id} {f'after {id_}' if id_ else 'at the beginning'}"
    if not id_:
        raise Failure(f"cell_id is needed to {mode} a cell: NotebookRead shows them.")
    index = notebook.position(id_)
    if mode == "delete":
        return notebook.without_cell(index), f"Deleted the cell {id_}"
    cell = open_object(notebook.cells.parts[index])
    before = member_text(cell, "cell_type")
    if member_text(cell, "source") == source and kind in {None, before}:
        raise Failure(f"The cell {id_} has this source already: nothing was changed.")
    cleared = " (its outputs were cleared)" if (kind or before) == "code" and before == "code" else ""
    return notebook.with_replaced_cell(index, source or "", kind), f"Replaced the cell {id_}{cleared}"


class _View:
    """Renders the cells of a notebook, and collects their images up to a limit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.blocks: list[dict[str, Any]] = []
        self._room = IMAGE_BYTES

    def cell(self, part: JsonSpan, id_: str, *, whole: bool) -> str:
        """Return one cell with its outputs; a source that is too long is cut, later if the cell is shown alone."""
        cell = open_object(part)
        source = _cut(member_text(cell, "source"), RESULT_BYTES // 2 if whole else _SOURCE)
        outputs = cell.find("outputs")
        texts = self._outputs(outputs, RESULT_BYTES // 4 if whole else _OUTPUT) if outputs else []
        kind = member_text(cell, "cell_type")
        return "\n".join([f'<cell id="{id_}" type="{kind}">', source, "</cell>", *texts])

    def _outputs(self, outputs: JsonSpan, most: int) -> list[str]:
        """Return the texts of a cell's outputs."""
        parts = split_members(outputs.value).parts if outputs.value.startswith(b"[") else ()
        texts = [_cut(_ANSI.sub("", self._output(open_object(part))), most) for part in parts[:_OUTPUTS]]
        texts += [f"({len(parts) - _OUTPUTS} more outputs)"] if len(parts) > _OUTPUTS else []
        return [f"<output>\n{output.rstrip()}\n</output>" for output in texts]

    def _output(self, output: Composite) -> str:
        """Return the text of one output."""
        match member_text(output, "output_type"):
            case "stream":
                return member_text(output, "text")
            case "error":
                error = f"{member_text(output, 'ename')}: {member_text(output, 'evalue')}"
                return member_text(output, "traceback") or error
            case _:
                return self._display(output)

    def _display(self, output: Composite) -> str:
        """Return notes on an output's images, with its text if it has any, or else the names of its types."""
        data = output.find("data")
        members = open_object(data) if data else Composite(b"{", (), b"}")
        notes = [self._add_image(member, kind) for kind in _IMAGES if (member := members.find(kind))]
        kinds = ", ".join(part.name()[:80] for part in members.parts[:_OUTPUTS])
        hidden = "" if notes else f"(output of type {kinds or 'unknown'}, not shown)"
        plain = member_text(members, "text/plain") or hidden
        return "\n".join(filter(None, [plain, *notes]))

    def _add_image(self, member: JsonSpan, kind: str) -> str:
        """Add an image to the blocks, and return a note; the note has the reason if the image is left out."""
        if len(self.blocks) >= IMAGES or len(member.value) * 3 // 4 > self._room:
            return f"({kind}: left out, too many or too large)"
        try:
            content = base64.b64decode(re.sub(rb'\\n|[\s"\[\],]', b"", member.value), validate=True)
            if media_type(content) != kind:
                return f"({kind}: left out, it is not what it says)"
            self.blocks.append(checked_image_block(content, kind, kind))
        except (binascii.Error, ValueError, Failure):
            return f"({kind}: left out, it is broken or too large)"
        self._room -= len(content)
        return f"({kind}: image {len(self.blocks)} below)"


def _cut(value: str, most: int) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(value) <= most:
        return value
    half = most // 2
    return f"{value[:half]}\n[... {len(value) - 2 * half:,} characters left out ...]\n{value[-half:]}"

"""NotebookRead and NotebookEdit on files as json and nbformat write them, and on others."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rows import every_row
from tests.toolhost.client import Client
from tests.toolhost.pictures import png


def notebook(*cells: dict[str, Any], minor: int = 5) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {"a": {"b": [1, {}]}}, "nbformat": 4, "nbformat_minor": minor}


STREAM = {"output_type": "stream", "name": "stdout", "text": ["hi\n", "\x1b[31mred\x1b[0m\n"]}
CODE = {"cell_type": "code", "execution_count": 3, "id": "abc", "metadata": {"é": 1}, "outputs": [STREAM]}
CODE |= {"source": ["x = 1\n", "y = 2"]}
TEXT = {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Title 😀"]}
WAYS: tuple[dict[str, Any], ...] = (
    {"indent": 1}, {"indent": 1, "ensure_ascii": False}, {"indent": "\t", "ensure_ascii": False},
    {"separators": (",", ":")}, {},
)  # fmt: skip


def put(root: Path, content: Any, **way: Any) -> bytes:
    raw = content if isinstance(content, bytes) else (json.dumps(content, **way) + "\n").encode()
    (root / "n.ipynb").write_bytes(raw)
    return raw


def change(host: Client, **arguments: Any) -> Any:
    stamp = host.call("NotebookRead", notebook_path="n.ipynb").stamps.get("n.ipynb", "")
    return host.call("NotebookEdit", notebook_path="n.ipynb", stamp=stamp, **arguments)


@pytest.mark.req("T4")
def test_cells_are_shown_with_their_outputs_and_images(host: Client, root: Path) -> None:
    picture = {"image/png": base64.encodebytes(png()).decode(), "text/plain": "<Figure>"}
    shown = {"output_type": "display_data", "data": picture, "metadata": {}}
    other = {"output_type": "display_data", "data": {"application/x": {}}, "metadata": {}}
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": []}
    put(root, notebook(CODE | {"outputs": [STREAM, shown, other, error]}, TEXT), indent=1)
    got = host.call("NotebookRead", notebook_path="n.ipynb")
    assert got.text.split("\n") == [
        *('<cell id="abc" type="code">', "x = 1", "y = 2", "</cell>"),
        *("<output>", "hi", "red", "</output>"),
        *("<output>", "<Figure>", "(image/png: image 1 below)", "</output>"),
        *("<output>", "(output of type application/x, not shown)", "</output>"),
        *("<output>", "E: v", "</output>"),
        *('<cell id="m1" type="markdown">', "# Title 😀", "</cell>"),
    ]
    assert [base64.b64decode(block["source"]["data"]) for block in got.blocks] == [png()]
    assert host.call("NotebookRead", notebook_path="n.ipynb", cell_id="m1").text.startswith('<cell id="m1"')


@pytest.mark.req("T4")
@every_row("way", WAYS)
@every_row("crlf", (False, True))
@every_row("bom", (b"", b"\xef\xbb\xbf"))
def test_a_replaced_cell_is_all_that_differs_however_the_file_is_written(
    host: Client, root: Path, way: dict[str, Any], crlf: bool, bom: bytes
) -> None:
    def written(content: Any) -> bytes:
        raw = (json.dumps(content, **way) + "\n").encode()
        return bom + (raw.replace(b"\n", b"\r\n") if crlf else raw)

    put(root, written(notebook(CODE, TEXT)))
    got = change(host, cell_id="abc", new_source="ж\nz")
    assert got.text == "Replaced the cell abc (its outputs were cleared) in n.ipynb."
    after = CODE | {"source": ["ж\n", "z"], "outputs": [], "execution_count": None}
    assert (root / "n.ipynb").read_bytes() == written(notebook(after, TEXT))
    assert change(host, cell_id="m1", new_source="text").text == "Replaced the cell m1 in n.ipynb."
    assert (root / "n.ipynb").read_bytes() == written(notebook(after, TEXT | {"source": ["text"]}))


@pytest.mark.parametrize("way", WAYS)
def test_deleting_an_inserted_cell_gives_the_old_bytes_back(host: Client, root: Path, way: dict[str, Any]) -> None:
    raw = put(root, notebook(CODE, TEXT), **way)
    for where in ({}, {"cell_id": "abc"}, {"cell_id": "m1"}):
        got = change(host, edit_mode="insert", cell_type="code", new_source="a\nb", **where)
        made = json.loads((root / "n.ipynb").read_bytes())["cells"]
        at = [cell["source"] for cell in made].index(["a\n", "b"])
        assert at == {"abc": 1, "m1": 2}.get(where.get("cell_id", ""), 0)
        assert sorted(made[at]) == ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]
        assert made[at]["id"] in got.text
        assert not change(host, edit_mode="delete", cell_id=made[at]["id"], new_source="").is_error
        assert (root / "n.ipynb").read_bytes() == raw


def test_a_notebook_without_cells_takes_a_first_one(host: Client, root: Path) -> None:
    put(root, notebook(TEXT), indent=1)
    change(host, edit_mode="delete", cell_id="m1")
    assert host.call("NotebookRead", notebook_path="n.ipynb").text == "(n.ipynb has no cells)"
    change(host, edit_mode="insert", cell_type="markdown", new_source="é")
    made = json.loads((root / "n.ipynb").read_bytes())
    assert [cell["source"] for cell in made["cells"]] == [["é"]]
    assert (root / "n.ipynb").read_bytes() == (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def test_a_cell_of_another_kind_loses_what_that_kind_may_not_have(host: Client, root: Path) -> None:
    put(root, notebook(CODE, TEXT | {"source": "one", "attachments": {}}), indent=2)
    change(host, cell_id="abc", cell_type="markdown", new_source="a")
    change(host, cell_id="m1", cell_type="code", new_source="b\nc")
    first, second = json.loads((root / "n.ipynb").read_bytes())["cells"]
    assert sorted(first) == ["cell_type", "id", "metadata", "source"]
    assert sorted(second) == ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]
    assert (first["source"], second["source"]) == (["a"], "b\nc")


def test_cells_without_proper_ids_go_by_their_place(host: Client, root: Path) -> None:
    old = {key: value for key, value in TEXT.items() if key != "id"}
    put(root, notebook(old, old | {"source": "two"}, minor=4), indent=1)
    change(host, cell_id="cell-1", new_source="2")
    change(host, edit_mode="insert", cell_type="raw", new_source="r", cell_id="cell-0")
    made = json.loads((root / "n.ipynb").read_bytes())["cells"]
    assert [cell["source"] for cell in made] == [["# Title 😀"], ["r"], "2"]
    assert all("id" not in cell for cell in made)
    put(root, notebook(TEXT, TEXT, TEXT | {"id": '"><cell'}))
    ids = host.call("NotebookRead", notebook_path="n.ipynb").text
    assert [f'<cell id="cell-{n}"' in ids for n in range(3)] == [True] * 3


def test_a_file_in_a_format_of_its_own_is_written_anew_and_the_answer_says_so(host: Client, root: Path) -> None:
    put(root, b'{ "cells": [ {"cell_type": "raw", "source": "a"} ],\n "nbformat": 4}')
    got = change(host, cell_id="cell-0", new_source="b")
    assert "formatted in another way" in got.text
    assert json.loads((root / "n.ipynb").read_bytes()) == {
        "cells": [{"cell_type": "raw", "source": "b"}], "nbformat": 4,
    }  # fmt: skip


@every_row(
    ("arguments", "words"),
    (
        ({"cell_id": "none", "new_source": "x"}, "Cells: abc, m1."),
        ({"new_source": "x"}, "NotebookRead shows them"),
        ({"edit_mode": "insert", "new_source": "x"}, "cell_type is needed"),
        ({"cell_id": "abc", "new_source": "x = 1\ny = 2"}, "has this source already"),
        ({"cell_id": "abc", "new_source": "\ud800"}, "surrogate"),
        ({"cell_id": "abc", "new_source": "x", "stamp": ""}, "read it first"),
        ({"cell_id": "abc", "new_source": "x", "stamp": "1-0"}, "read it again"),
        ({"cell_id": "abc", "new_source": "x", "notebook_path": "m.ipynb"}, "Near names: n.ipynb"),
        ({"cell_id": "abc", "new_source": "x", "notebook_path": "../n.ipynb"}, "outside"),
        ({"cell_id": "abc", "new_source": "x", "notebook_path": "."}, "folder"),
    ),
)
def test_a_refused_edit_says_what_to_do(host: Client, root: Path, arguments: dict[str, str], words: str) -> None:
    raw = put(root, notebook(CODE, TEXT))
    stamp = host.call("NotebookRead", notebook_path="n.ipynb").stamps["n.ipynb"]
    got = host.call("NotebookEdit", **{"notebook_path": "n.ipynb", "stamp": stamp} | arguments)
    assert got.is_error
    assert words in got.text
    assert (root / "n.ipynb").read_bytes() == raw


END = b',"nbformat":4,"nbformat_minor":5}'


@pytest.mark.req("X4")
@every_row(
    ("content", "words"),
    (
        (b"", "not JSON"),
        (b"[]", "nbformat is not 4"),
        (b"\x89PNG\0", "not JSON"),
        (b'{"cells": [' + b"[" * 200_000, "deep"),
        (b'{"cells":[' + b"[]," * 600_000 + b"[]]" + END, "brackets"),
        (b'{"cells":[' + b"1," * 300_000 + b"1]" + END, "20,000 cells"),
        (b'{"cells":[1]' + END, "cell_type is none of"),
        (b'{"cells":[{"cell_type":"code","cell_type":"raw"}]' + END, "more than once"),
        (b'{"cells":[],"cells":[]' + END, "more than once"),
        (b'{"cells":[{}]' + END, "cell_type is none of"),
        (b'{"cells":[{"cell_type":"code",}]' + END, "not JSON"),
        (b'{"cells":{}' + END, "no list of cells"),
        (b'{"worksheets":[],"nbformat":3,"nbformat_minor":0}', "upgrade it"),
        (b'{"cells":[]' + END + b"x", "not JSON"),
        (b'{"cells":["' + b"\\" * 1_000_001, "not JSON"),
        ("{}".encode("utf-16"), "not JSON"),
        (b'{"cells":[],"metadata":{"n":1e999}' + END, "too large"),
        (b'{"cells":[],"metadata":{"n":' + b"1" * 5000 + b"}" + END, "not JSON"),
    ),
)
def test_a_hostile_notebook_is_an_error_that_says_so(host: Client, root: Path, content: bytes, words: str) -> None:
    put(root, content)
    got = host.call("NotebookRead", notebook_path="n.ipynb")
    assert got.is_error
    assert words in got.text
    assert "Read shows its text" in got.text


@pytest.mark.req("T5", "X4")
def test_odd_values_are_shown_within_bounds_and_stay(host: Client, root: Path) -> None:
    images = [{"image/png": base64.b64encode(content).decode()} for content in (b"no", png(9000), png()[:-9], png())]
    outputs = [{"output_type": "display_data", "data": data} for data in [*images, {"image/gif": "R0lG!"}]]
    outputs += [{"output_type": "stream", "text": "x" * 3_000_000}, {"output_type": "stream", "text": ["y" * 90_000]}]
    odd = CODE | {"outputs": outputs, "source": "\ud800\udfff \ud800", "metadata": {"n": float("nan")}}
    raw = put(root, notebook(odd, TEXT, *[TEXT | {"id": f"t{n}", "source": "z" * 30_000} for n in range(9)]))
    got = host.call("NotebookRead", notebook_path="n.ipynb")
    assert not got.is_error
    assert len(got.blocks) == 1
    assert "😀" in got.text
    assert got.text.split("\n")[1] == "\U000103ff \ufffd"
    assert "characters left out" in got.text
    assert "more cells" in got.text
    assert len(got.text) < 130_000
    assert not change(host, cell_id="m1", new_source="new").is_error
    before, after = raw.split(b"# Title \\ud83d\\ude00")
    assert (root / "n.ipynb").read_bytes() == before + b"new" + after


def test_no_cell_is_changed_in_a_read_only_checkout(open_host: Callable[..., Client], root: Path) -> None:
    put(root, notebook(TEXT))
    assert "read-only" in change(open_host(writable=False), cell_id="m1", new_source="x").text


@pytest.mark.long
def test_a_large_notebook_takes_bounded_memory(host: Client, root: Path) -> None:
    put(root, notebook(CODE | {"outputs": [{"output_type": "stream", "text": "x" * 20_000_000}]}, TEXT))
    assert not change(host, cell_id="m1", new_source="x").is_error
    assert host.peak_mb() < 244

"""What is made of a picture's bytes: an image block that the model's service accepts, or a reason."""

import base64
import struct
import zlib

import pytest

from bot.compose.job_environment import image_block
from bot.core.errors import Refused
from tests.rows import every_row
from tests.toolhost.pictures import JPEG, WEBP, png

pytestmark = pytest.mark.req("K9")
GIF = b"GIF89a" + struct.pack("<HH", 3, 2) + b"\0\0\0;"


@pytest.mark.parametrize(("content", "kind"), ((png(), "png"), (JPEG, "jpeg"), (GIF, "gif"), (WEBP, "webp")))
def test_a_picture(content: bytes, kind: str) -> None:
    """Its type comes from its first bytes."""
    source = {"type": "base64", "media_type": f"image/{kind}", "data": base64.b64encode(content).decode()}
    assert image_block(content) == {"type": "image", "source": source}


@every_row(
    ("content", "why"),
    (
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "not a PNG, JPEG, GIF, or WebP image"),
        (b"<html>", "not a PNG, JPEG, GIF, or WebP image"),
        (b"%PDF-1.7", "not a PNG, JPEG, GIF, or WebP image"),
        (b"", "not a PNG, JPEG, GIF, or WebP image"),
        (png()[:40], "broken or incomplete"),
        (png(0, 5), "broken or incomplete"),
        (png(2, 2, b"not packed"), "broken or incomplete"),
        (png(8001, 1), "8001 x 1 pixels"),
        (png(60_000, 60_000, zlib.compress(bytes(1_000_000))), "60000 x 60000 pixels"),
    ),
)
def test_what_is_none(content: bytes, why: str) -> None:
    """A drawing with scripts, another format, a torn file, or one that would unpack to gigabytes."""
    with pytest.raises(Refused, match=why):
        image_block(content)

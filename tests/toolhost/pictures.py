"""Pictures that are whole, made by hand."""

import struct
import zlib

JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9"
WEBP = b"RIFF\x1e\0\0\0WEBPVP8 \x12\0\0\0" + bytes(6) + struct.pack("<HH", 2, 2) + bytes(8)


def png(width: int = 2, height: int = 2, pixels: bytes = zlib.compress(b"\0" * 100)) -> bytes:
    """Make a PNG; one whose pixels cannot be unpacked where that is asked for."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")

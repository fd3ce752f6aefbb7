"""A command's output, limited while it is read: its beginning and end are kept, the characters between are counted."""

import codecs

HEAD = 20_000
TAIL = 10_000
_LINE = 200


class Output:
    """Receives bytes and keeps characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = ""
        self._tail = ""
        self._total = 0

    def add(self, piece: bytes, *, final: bool = False) -> None:
        """Add the next bytes."""
        text = self._decoder.decode(piece, final)
        self._total += len(text)
        room = HEAD - len(self._head)
        self._head += text[:room]
        if len(text) > room:
            self._tail = (self._tail + text[max(room, len(text) - TAIL) :])[-TAIL:]

    def text(self) -> str:
        """Return the text that was kept, with a note on how much was left out."""
        left_out = self._total - len(self._head) - len(self._tail)
        middle = f"\n\n[... {left_out:,} characters left out ...]\n\n" if left_out else ""
        return self._head + middle + self._tail

    def last_line(self) -> str:
        """Return the last line that is not empty, shortened, to show progress; "" if there is none."""
        lines = (self._head + self._tail)[-TAIL:].split("\n")
        return next((line.strip()[-_LINE:] for line in reversed(lines) if line.strip()), "")

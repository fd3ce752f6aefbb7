"""Reports a long silence on the wire while a caller still waits for it (M7)."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def report_silence(seconds: float, say: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call `say` once for every silence of that length; the context yields a function to call at every sound."""
    loop = asyncio.get_running_loop()
    heard, said = loop.time(), False
    timer: asyncio.TimerHandle

    def sound() -> None:
        nonlocal heard, said
        heard, said = loop.time(), False

    def look() -> None:
        nonlocal said, timer
        left = heard + seconds - loop.time()
        if left <= 0 and not said:
            said = True
            say()
        timer = loop.call_later(left if left > 0 else seconds, look)

    timer = loop.call_later(seconds, look)
    try:
        yield sound
    finally:
        timer.cancel()

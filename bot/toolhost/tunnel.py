"""The sandbox's end of the proxy connection: forwards connections from a loopback port to the mounted socket.

Rules: the tunnel enforces no policy, because every program in the sandbox could open the socket as well; the proxy at
the other end does. The tunnel connects to nothing else, and runs only if the policy allows a host.
"""

import asyncio
import threading

PORT = 3128
_AT_ONCE = 64
_PIECE = 1 << 16


def start(socket: str) -> None:
    """Listen on the loopback of this sandbox's own network; on return, connections are accepted."""
    ready = threading.Event()
    failed: list[OSError] = []
    threading.Thread(target=lambda: asyncio.run(_serve(socket, ready, failed)), daemon=True).start()
    ready.wait()
    if failed:
        raise failed[0]


async def _serve(socket: str, ready: threading.Event, failed: list[OSError]) -> None:
    running: set[asyncio.Task[None] | None] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        running.add(task)
        try:
            if len(running) <= _AT_ONCE:
                await _relay_both_ways(reader, writer, socket)
        except OSError:
            pass
        finally:
            running.discard(task)
            writer.close()

    try:
        server = await asyncio.start_server(accept, "127.0.0.1", PORT, limit=_PIECE)
    except OSError as error:
        failed.append(error)
        return
    finally:
        ready.set()
    async with server:
        await server.serve_forever()


async def _relay_both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: str) -> None:
    """Copy both directions between a connection and the socket until both have ended, or one breaks."""
    socket_reader, socket_writer = await asyncio.open_unix_connection(socket, limit=_PIECE)
    try:
        await asyncio.gather(_pump(reader, socket_writer), _pump(socket_reader, writer))
    finally:
        socket_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()

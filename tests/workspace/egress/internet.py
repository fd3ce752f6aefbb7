"""A small internet on the loopback: names and addresses that a test chooses, and one TLS server behind all of them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bot.workspace.egress.route import EgressRoute, Streams

PUBLIC = "93.184.215.14"
NAMES = ("docs.example.org", "files.example.org", "evil.example.net")


@dataclass(slots=True)
class Internet:
    """What was looked up and dialled; every public address leads to `port` of this machine."""

    port: int
    ca: Path
    zone: Mapping[str, Sequence[str]] = field(default_factory=lambda: dict.fromkeys(NAMES, (PUBLIC,)))
    heads: list[str] = field(default_factory=list)
    """The heads of the requests."""
    looked_up: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    @property
    def route(self) -> EgressRoute:
        return EgressRoute(self._resolve, self._dial)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    async def _resolve(self, host: str, _: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host not in self.zone:
            raise OSError("no such name")
        return self.zone[host]

    async def _dial(self, address: str, port: int) -> Streams:
        self.dialled.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.port)


def certificates(folder: Path, names: Sequence[str] = NAMES) -> tuple[Path, Path]:
    """Make a certificate for all names, which is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, secret


@asynccontextmanager
async def internet(
    folder: Path, answers: Callable[[str, str], bytes], names: Sequence[str] = NAMES
) -> AsyncIterator[Internet]:
    """Serve `answers(host, path)`, whole HTTP answers, over TLS, for these names."""
    cert, key = certificates(folder, names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    joined: set[asyncio.StreamWriter] = set()
    heads: list[str] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        joined.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            heads.append(head)
            host = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("host:"))
            writer.write(answers(host, head.split()[1]))
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=context)
    try:
        yield Internet(server.sockets[0].getsockname()[1], cert, dict.fromkeys(names, (PUBLIC,)), heads)
    finally:
        server.close()
        for writer in joined:
            writer.transport.abort()
        await asyncio.sleep(0)


def ok(body: bytes, kind: str = "text/plain", *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body

"""People with SSH keys of their own, made by the real ssh-keygen."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bot.receipts.approvers import NAMESPACE


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a key of their own."""

    login: str
    key: Path

    @property
    def public(self) -> str:
        """The public key, as GitHub lists it: kind and base64."""
        return " ".join(self.key.with_suffix(".pub").read_text().split()[:2])

    def sign(self, content: bytes, namespace: str = NAMESPACE) -> bytes:
        """Sign without Plangate."""
        command = ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", str(self.key)]
        return subprocess.run(command, input=content, capture_output=True, check=True).stdout

    def listed(self, folder: Path) -> Path:
        """Return the file LOGIN.keys as GitHub serves it."""
        path = folder / f"{self.login}.keys"
        path.write_text(f"{self.public}\n")
        return path


def make_person(folder: Path, login: str, kind: str = "ed25519") -> Person:
    """Return somebody with a new key; one of RSA is short, since finding primes takes seconds."""
    key, size = folder / f"{login}-{kind}", ("-b", "1024") if kind == "rsa" else ()
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *size, "-N", "", "-C", login, "-f", str(key)], check=True)
    return Person(login, key)

"""An approver's own signature of a receipt, by any SSH key (RC2)."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from bot.core.errors import Misconfigured, Refused
from bot.core.transcript import Json

# --- Signatures by any SSH key
# `ssh-keygen -Y` signs and checks, so that every kind of SSH key works, also those on hardware and in an agent.
# The format is OpenSSH's: https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig

NAMESPACE: Final = "plan-approval@plangate.dev"
"""What a signature is for. One that was made for another purpose, such as a commit, does not count."""
SIGNATURE_LIMIT: Final = 16_384
"""Bytes. A larger signature is refused unread."""
_KEYS_SUFFIX: Final = ".keys"
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_KEY_LINE: Final = re.compile(r"((?:sk-)?(?:ssh|ecdsa)-[\w@.-]+ [A-Za-z0-9+/=]+)(?: .*)?", re.ASCII)
_GOOD: Final = re.compile(r'Good ".*" signature (?:for .* )?with (.+)')


@dataclass(frozen=True, slots=True)
class AllowedSigners:
    """The keys that may sign for each login, from the verifier's own files, and those that no longer count."""

    lines: str
    """Lines in ssh's format of allowed signers, in which a principal is a login on GitHub."""
    keys: Mapping[str, tuple[str, ...]]
    """Login in lower case -> public keys, from the lists that GitHub serves."""
    revoked: Path | None = None
    """A list of revoked keys in ssh's format (KRL, or one public key on a line)."""

    @classmethod
    def read(cls, files: Iterable[Path], revoked: Path | None) -> Self:
        """Return what the files say. Raises Misconfigured for one that cannot be read.

        A file named LOGIN.keys holds that person's keys, as https://github.com/LOGIN.keys lists them. Any other has
        ssh's format: https://man.openbsd.org/ssh-keygen#ALLOWED_SIGNERS
        """
        lines: list[str] = []
        keys: dict[str, tuple[str, ...]] = {}
        for path in files:
            text = _read(path)
            if path.suffix == _KEYS_SUFFIX:
                keys[path.stem.lower()] = _listed_keys(text, path)
            else:
                lines.append(text)
        if revoked is not None and not revoked.is_file():
            raise Misconfigured("there is no such file", where=str(revoked), fix="name the list of revoked keys")
        return cls("\n".join(lines), keys, revoked)

    def lines_for(self, login: str) -> str:
        """Return the allowed signers among whom ssh-keygen looks for a login."""
        own = self.keys.get(login.lower(), ()) if _LOGIN.fullmatch(login) else ()
        return "\n".join([self.lines, *(f'{login} namespaces="{NAMESPACE}" {key}' for key in own), ""])


@dataclass(frozen=True, slots=True)
class CheckedSignature:
    """The answer of ssh-keygen. `problem` is empty if the signature is good."""

    problem: str
    key: str = ""
    """The kind and fingerprint of the key."""


def make_signature(content: bytes, key: Path) -> bytes:
    """Return the armored signature of some bytes by a private key, or by an agent that has the key of a public one.

    May ask for a passphrase at the terminal. Raises Refused if ssh-keygen makes none.
    """
    command = [_program(), "-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(Path(os.path.expanduser(key)).absolute())]
    ran = subprocess.run(command, input=content, capture_output=True, check=False)
    if ran.returncode or not ran.stdout:
        fix = "name your SSH key with --key: the private one, or the public one of a key in your agent"
        raise Refused(
            f"ssh-keygen made no signature: {_reason(ran.stderr) or 'it said nothing'}", where=str(key), fix=fix
        )
    return ran.stdout


def check_signature(
    content: bytes, signature: bytes, login: str, *, signers: AllowedSigners, at: datetime
) -> CheckedSignature:
    """Check that a key that may sign for `login` at the time `at` made the signature of `content`.

    Raises Misconfigured without ssh-keygen.
    """
    if len(signature) > SIGNATURE_LIMIT:
        return CheckedSignature(f"the signature is larger than {SIGNATURE_LIMIT} bytes")
    if not (login and login.isprintable()):
        return CheckedSignature("the receipt's login is no name")
    with TemporaryDirectory() as folder:
        allowed, armored = Path(folder) / "allowed", Path(folder) / "signature"
        allowed.write_text(signers.lines_for(login), encoding="utf-8")
        armored.write_bytes(signature)
        command = [_program(), "-Y", "verify", "-n", NAMESPACE, "-I", login, "-f", str(allowed), "-s", str(armored)]
        command += [f"-Overify-time={at.astimezone(UTC):%Y%m%d%H%M%S}"]
        command += ["-r", str(signers.revoked.absolute())] if signers.revoked else []
        environment = {"PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC", "LC_ALL": "C"}
        ran = subprocess.run(command, input=content, capture_output=True, env=environment, check=False)
    good = _GOOD.search(ran.stdout.decode("utf-8", "replace"))
    if ran.returncode == 0 and good:
        return CheckedSignature("", good[1].strip())
    revoked = ", or it is revoked" if signers.revoked else ""
    unknown = f"it was made by no key that may sign for {login}{revoked}"
    return CheckedSignature(_reason(ran.stderr).replace(str(allowed), "allowed signers") or unknown)


def _program() -> str:
    found = shutil.which("ssh-keygen")
    if found is None:
        raise Misconfigured("ssh-keygen is not installed", fix="install OpenSSH 8.7 or newer (openssh-client)")
    return found


def _reason(output: bytes) -> str:
    return next((line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()), "")


def _listed_keys(text: str, path: Path) -> tuple[str, ...]:
    matches = [_KEY_LINE.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    if not all(matches):
        fix = f"get it again, such as https://github.com/{path.name}"
        raise Misconfigured("this is not a list of public keys", where=str(path), fix=fix)
    return tuple(match[1] for match in matches if match)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        raise Misconfigured(f"the file cannot be read: {why}", where=str(path), fix="name another one") from error


# --- Approvers' signatures of a receipt (RC2)
# The service attests what GitHub reported. An approver who signs the same payload with an SSH key of their own attests
# that this approval is theirs. Both signatures are kept apart, so that neither changes the bytes of the other.

APPROVER_CODE = 28
"""The exit code of `plangate verify` if signatures of approvers were asked for and are not there."""


@dataclass(frozen=True, slots=True)
class Approver:
    """A person whose approval of the published plan a receipt states."""

    actor_id: int
    login: str
    role: str
    """"" for somebody whom the configuration lists."""
    way: str
    at: str


@dataclass(frozen=True, slots=True)
class ApproverSignature:
    actor_id: int
    login: str
    """"" if the receipt names no approver of that number."""
    problem: str
    """Why it does not count; "" if it does."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ApproverVerdict:
    """Whether the approvers of a receipt signed it themselves."""

    signatures: tuple[ApproverSignature, ...]
    is_checked: bool
    """Whether the verifier said which keys may sign. If not, only the presence of signatures is known."""
    objections: tuple[str, ...] = ()


def approvers(statement: Json) -> tuple[Approver, ...]:
    """Return the people whose approval of the published plan counted, as a well-formed receipt states them."""
    predicate = statement["predicate"]
    approvals = [approval for approval in predicate["approvals"] if approval["plan"] == predicate["plan"]["digest"]]
    people = approvals[-1]["by"] if approvals else ()
    names = ("actor_id", "login", "role", "way", "at")
    return tuple(Approver(*(person[name] for name in names)) for person in people)


def approver_verdict(statement: Json, signatures: Sequence[ApproverSignature]) -> ApproverVerdict:
    """Return the verdict on checked signatures: as many approvers must have signed as the receipt's rule needs."""
    people = approvers(statement)
    signed = {signature.actor_id for signature in signatures if not signature.problem}
    policy = statement["predicate"]["policy"]
    needed = min(max(policy["needed"] if policy else 1, 1), len({person.actor_id for person in people}))
    objections = [
        f"{signature.login or signature.actor_id}: {signature.problem}" for signature in signatures if signature.problem
    ]
    if not people:
        objections.insert(0, "the receipt names nobody who approved, so nobody can have signed")
    elif len(signed) < needed:
        objections.insert(0, f"{len(signed)} of {needed} approvers signed")
    else:
        objections = []  # what others put there spoils no good signature
    return ApproverVerdict(tuple(signatures), is_checked=True, objections=tuple(objections))

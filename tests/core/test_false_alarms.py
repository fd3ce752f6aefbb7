"""Ordinary work is no secret: pieces of the sources that are installed here, as a diff would add them."""

import random
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from bot.core.secrets.redaction import Redactor

KINDS: Final = {".py", ".pyi", ".md", ".txt", ".json", ".toml", ".js", ".c", ".h"}
LINES: Final = (5, 20, 60, 200)
LARGEST: Final = 500_000


OURS: Final = Path(__file__).parents[2]
LIBRARY, PACKAGES = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
FEW: Final = (OURS / "bot", LIBRARY / "email", LIBRARY / "http", PACKAGES / "pydantic")
MANY: Final = (OURS / "bot", LIBRARY, PACKAGES)


def alarms(count: int, roots: Sequence[Path]) -> list[str]:
    """Look at so many pieces of files, and list the files of those in which something is found."""
    dice = random.Random(count)
    files = sorted(path for root in roots for path in root.rglob("*") if path.suffix in KINDS)
    found = []
    for path in (each for each in dice.choices(files, k=2 * count) if each.stat().st_size < LARGEST):
        lines = path.read_text(errors="replace").splitlines()
        start = dice.randrange(max(1, len(lines)))
        if spans := Redactor().find_secrets("\n".join(lines[start : start + dice.choice(LINES)])):
            found.append(f"{path.name}: {spans[0].kind}")
        count -= 1
        if not count:
            return found
    raise AssertionError("too few files")


@pytest.mark.req("X3")
@pytest.mark.parametrize(("count", "roots"), ((100, FEW), pytest.param(1_000, MANY, marks=pytest.mark.soak)))
def test_ordinary_work_raises_no_alarm(count: int, roots: Sequence[Path]) -> None:
    """At most one piece in a hundred is taken for a secret."""
    found = alarms(count, roots)
    print(f"{len(found)} alarms in {count} pieces: {found}")  # noqa: T201 - the figure is for reading
    assert len(found) <= count // 100

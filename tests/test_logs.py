"""The log: one line each, readable by people and machines, without secrets."""

import io
import json
import logging

import pytest

from bot.core.errors import Refused
from bot.core.secrets.redaction import Redactor
from bot.logs import failure, say, setup

PEM = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEAx9FQ2vLk81hGq7Zw0P\nabcdefghijklmnop\n-----END KEY-----"


def written(style: str, *hidden: str, level: str = "INFO") -> io.StringIO:
    out = io.StringIO()
    setup(style, level, redactor=Redactor(tuple((value, "key") for value in hidden)), out=out)
    return out


def test_a_line_of_text() -> None:
    """Time, level, what, then facts by name; what could be misread is quoted."""
    out = written("text")
    say("look", thread="octo/hello#1", stage="done", seconds=1.5, why='a "b" c', empty="", none=None)
    _, _, rest = out.getvalue().partition(" ")
    assert rest == 'info look thread=octo/hello#1 stage=done seconds=1.5 why="a \\"b\\" c" empty="" none=None\n'


def test_a_line_of_json() -> None:
    """The same facts as one object a line."""
    out = written("json")
    say("look", thread="octo/hello#1", seconds=1.5)
    facts = json.loads(out.getvalue())
    assert facts.pop("at").endswith("+00:00")
    assert facts == {"level": "info", "what": "look", "thread": "octo/hello#1", "seconds": 1.5}


@pytest.mark.parametrize("style", ("text", "json"))
def test_nothing_breaks_a_line(style: str) -> None:
    """Who shapes a name cannot write a line of their own, nor speak to the terminal."""
    out = written(style)
    say("look", thread="a\n2026 info look\r\x1b[31m\u2028")
    logging.getLogger("other").error("in ASGI\n2026 info look\n")
    assert len(out.getvalue().splitlines()) == 2
    assert "\x1b" not in out.getvalue()


@pytest.mark.req("PR4", "X3")
@pytest.mark.parametrize("style", ("text", "json"))
def test_secrets_never_show(style: str) -> None:
    """Wherever they stand, in one of our errors or in a library's words; each line of a key for itself."""
    out = written(style, "hunter2-hunter2", PEM)
    failure("look", Refused("the token hunter2-hunter2 is bad", fix="MIIEowIBAAKCAQEAx9FQ2vLk81hGq7Zw0P"))
    logging.getLogger("other").warning("it is %s", "abcdefghijklmnop")
    shown = out.getvalue()
    assert "hunter2" not in shown
    assert "x9FQ2" not in shown
    assert "abcdefgh" not in shown
    assert shown.count("[redacted: key]") == 3


def test_an_error_that_is_not_ours_says_where_but_not_what() -> None:
    """Its text may quote a body."""
    out = written("json")
    try:
        raise KeyError("a body")
    except KeyError as error:
        failure("look", error)
    logging.getLogger("other").error("it failed", exc_info=ValueError("a body"))
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["level"] == "error"
    assert first["error"].startswith("KeyError at test_logs.py:")
    assert second["error"] == "ValueError"
    assert "a body" not in out.getvalue()


@pytest.mark.parametrize(
    ("level", "heard"),
    (
        ("INFO", "plangate/20 plangate/30 bot/20 bot/30 other/30"),
        ("WARNING", "plangate/30 bot/30 other/30"),
        ("ERROR", ""),
    ),
)
def test_who_is_heard_at_which_level(level: str, heard: str) -> None:
    """Modules that log where they stand as well as what is said by name; libraries only when something is wrong."""
    out = written("text", level=level)
    for name in ("plangate", "bot", "other"):
        for at in (logging.INFO, logging.WARNING):
            logging.getLogger(name).log(at, f"{name}/{at}")
    assert [line.split()[2] for line in out.getvalue().splitlines()] == heard.split()

"""The log: one line each, readable by people and machines, without secrets."""

import io
import json
import logging

import pytest
from hypothesis import given, settings, strategies

from bot.core.errors import Refused
from bot.core.secrets.redaction import Redactor
from bot.logs import failure, say, say_each, setup

PEM = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEAx9FQ2vLk81hGq7Zw0P\nabcdefghijklmnop\n-----END KEY-----"


def written(style: str, *hidden: str, level: str = "INFO") -> io.StringIO:
    out = io.StringIO()
    setup(style, level, redactor=Redactor(tuple((value, "key") for value in hidden)), out=out)
    return out


class Pieces:
    """Records what each write writes."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        self.written.append(text)

    def flush(self) -> None:
        """Do nothing: all of it is here."""


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


@pytest.mark.parametrize("style", ("text", "json"))
def test_events_that_are_logged_together(style: str) -> None:
    """A line each, as if each were logged alone, with one write; a secret in one of them shows in none."""
    events: list[dict[str, object]] = [{"status": 202, "guid": f"0a1b2c3d-{number}"} for number in range(3)]
    secret: dict[str, object] = {"guid": "hunter2-hunter2"}
    for shown in (events, [*events, secret]):
        out, pieces = written(style, "hunter2-hunter2"), Pieces()
        for facts in shown:
            logging.getLogger("plangate").info("delivery", extra={"fields": facts})
        alone = [line.partition("delivery")[2] for line in out.getvalue().splitlines()]
        setup(style, redactor=Redactor((("hunter2-hunter2", "key"),)), out=pieces)
        say_each("delivery", shown)
        (together,) = pieces.written
        assert [line.partition("delivery")[2] for line in together.splitlines()] == alone
        assert "hunter2" not in together


FRAGMENTS = (
    *("hunter2-hunter2", "hunter2", "ghp_" + "a1B2" * 9, "ghp_", "a1B2" * 9, "authorization", ": ", "bearer", "\n"),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "https://u:",
        "p4ssw0rd-x1@host",
        "12345678:AA",
        "x1Y2-" * 7,
        "A" * 300,
        "token='",
    ),
)


@pytest.mark.req("PR4", "X3")
@given(strategies.lists(strategies.lists(strategies.sampled_from(FRAGMENTS), max_size=4).map("".join), max_size=5))
@settings(max_examples=60, deadline=None)
def test_searching_together_finds_what_searching_alone_finds(values: list[str]) -> None:
    """What stands beside a text neither hides a secret in it nor makes one of it."""
    redactor, out = Redactor((("hunter2-hunter2", "key"),)), io.StringIO()
    setup("json", redactor=redactor, out=out)
    facts = {f"f{number}": value for number, value in enumerate(values)}
    say_each("look", [facts, {"status": 1}])
    first = json.loads(out.getvalue().splitlines()[0])
    assert {name: first[name] for name in facts} == {name: redactor.redact(text)[:500] for name, text in facts.items()}


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

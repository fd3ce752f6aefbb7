"""What is logged and printed: one line each, readable by people and machines, without secrets."""

import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from bot.config.environment import redactor_for
from bot.config.settings import GitHubSettings, Identity, Secret, Settings
from bot.core.errors import Refused
from bot.core.secrets.redaction import Redactor
from bot.logs import failure, outlet, redirect_output, say, say_each, setup, unredacted_stream
from tests import forks

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


def test_a_line_of_text_quotes_what_could_be_misread() -> None:
    out = written("text")
    say("look", thread="octo/hello#1", stage="done", seconds=1.5, why='a "b" c', empty="", none=None)
    _, _, rest = out.getvalue().partition(" ")
    assert rest == 'info look thread=octo/hello#1 stage=done seconds=1.5 why="a \\"b\\" c" empty="" none=None\n'


def test_a_line_of_json_has_the_same_facts() -> None:
    out = written("json")
    say("look", thread="octo/hello#1", seconds=1.5)
    facts = json.loads(out.getvalue())
    assert facts.pop("at").endswith("+00:00")
    assert facts == {"level": "info", "what": "look", "thread": "octo/hello#1", "seconds": 1.5}


@pytest.mark.parametrize("style", ("text", "json"))
def test_nothing_breaks_a_line(style: str) -> None:
    out = written(style)
    say("look", thread="a\n2026 info look\r\x1b[31m\u2028")
    logging.getLogger("other").error("in ASGI\n2026 info look\n")
    assert len(out.getvalue().splitlines()) == 2
    assert "\x1b" not in out.getvalue()


@pytest.mark.req("PR4", "X3")
@pytest.mark.parametrize("style", ("text", "json"))
def test_secrets_show_in_no_error_and_in_no_words_of_a_library(style: str) -> None:
    out = written(style, "hunter2-hunter2", PEM)
    failure("look", Refused("the token hunter2-hunter2 is bad", fix="MIIEowIBAAKCAQEAx9FQ2vLk81hGq7Zw0P"))
    logging.getLogger("other").warning("it is %s", "abcdefghijklmnop")
    shown = out.getvalue()
    assert "hunter2" not in shown
    assert "x9FQ2" not in shown
    assert "abcdefgh" not in shown
    assert shown.count("[redacted: key]") == 3


@pytest.mark.parametrize("style", ("text", "json"))
def test_events_logged_together_are_one_write_of_a_line_each(style: str) -> None:
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
    redactor, out = Redactor((("hunter2-hunter2", "key"),)), io.StringIO()
    setup("json", redactor=redactor, out=out)
    facts = {f"f{number}": value for number, value in enumerate(values)}
    say_each("look", [facts, {"status": 1}])
    first = json.loads(out.getvalue().splitlines()[0])
    assert {name: first[name] for name in facts} == {name: redactor.redact(text)[:500] for name, text in facts.items()}


def test_an_error_that_is_not_ours_says_where_but_not_what() -> None:
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
    out = written("text", level=level)
    for name in ("plangate", "bot", "other"):
        for at in (logging.INFO, logging.WARNING):
            logging.getLogger(name).log(at, f"{name}/{at}")
    assert [line.split()[2] for line in out.getvalue().splitlines()] == heard.split()


KEY = "sk-ant-api03-" + "Zx9Qw7Lm3Tk5Vb1N" * 5


def program(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return forks.plangate().run(*arguments, env=env)


def test_lines_pass_and_secrets_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    through = outlet(out, Redactor(((KEY, "key"),)))
    through.write(f"a {KEY} b\nc\n")
    assert out.getvalue() == "a [redacted: key] b\nc\n"
    assert unredacted_stream(through) is out
    assert not through.isatty()
    with redirect_output(Redactor(((KEY, "key"),))):
        sys.stdout.write(f"{KEY}\n")
        sys.stderr.write(f"{KEY}\n")
    assert (*capsys.readouterr(),) == ("[redacted: key]\n",) * 2


@pytest.mark.req("PR4", "X3")
@pytest.mark.parametrize("variable", ("ANTHROPIC_API_KEY", "PLANGATE_WEBHOOK_SECRET", "GITHUB_TOKEN"))
@pytest.mark.parametrize("debug", ((), pytest.param(("--debug",), marks=pytest.mark.long)))
def test_neither_error_nor_traceback_shows_a_secret(variable: str, debug: tuple[str, ...]) -> None:
    done = program(*debug, "replay", f"/tmp/{KEY}", **{variable: KEY})
    assert done.returncode == 2
    assert ("Traceback" in done.stderr) == bool(debug)
    assert "[redacted: " in done.stderr
    assert KEY[20:40] not in done.stdout + done.stderr


@pytest.mark.req("PR4")
def test_every_secret_of_settings_and_environment_is_known(tmp_path: Path) -> None:
    words = [f"{number:02d}-a-secret-of-the-settings" for number in range(8)]
    first = [Secret(word) for word in words[:4]]
    github = GitHubSettings(token=first[0], private_key=first[1], webhook_secret=first[2], api_token=first[3])
    identity = Identity("r", "o", "s", "https://example.org", Secret(words[4]))
    given = Settings(api_key=Secret(words[5]), state_key=Secret(words[6]), github=github, identity=identity)
    (tmp_path / "key.pem").write_text(words[7])
    clean = redactor_for(given, {"PLANGATE_PRIVATE_KEY_PATH": str(tmp_path / "key.pem"), "GH_TOKEN": KEY}).redact
    assert not [word for word in (*words, KEY) if clean(word).count("[redacted: ") != 1 or word[3:] in clean(word)]
    assert redactor_for(environ={"PLANGATE_PRIVATE_KEY_PATH": "/nonexistent"}).values == ()
    (tmp_path / "id").write_text(
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{'q7Zr' * 16}\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    signing = redactor_for(environ={"PLANGATE_SIGNING_KEY_PATH": str(tmp_path / "id")}).redact
    assert signing(f"a {'q7Zr' * 16} b") == "a [redacted: signing key] b"
    assert redactor_for(environ={"PLANGATE_SIGNING_KEY_PATH": "/nonexistent"}).redact("a b") == "a b"


@pytest.mark.req("PR4")
def test_a_key_in_a_header_for_the_model_is_known() -> None:
    lines = (
        "x-api-key: theirs-0123456789\nAuthorization: Bearer their-token-0123456789\nx-team: payments-and-billing\nodd"
    )
    clean = redactor_for(environ={"ANTHROPIC_CUSTOM_HEADERS": lines}).redact
    assert "0123456789" not in clean("theirs-0123456789 and their-token-0123456789")
    assert clean("payments-and-billing") == "payments-and-billing"

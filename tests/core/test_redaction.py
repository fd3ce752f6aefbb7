"""No text leaves with a secret in it, however it is written; what holds none stays as it is."""

import base64
import json
import random
import string
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.secrets.known import PIECE, KnownSecrets
from bot.core.secrets.redaction import LEARNED, Redactor
from tests.rows import every_row

DICE: Final = random.Random(20261122)
SIGNS: Final = string.ascii_letters + string.digits


def made(length: int, signs: str = SIGNS) -> str:
    return "".join(DICE.choices(signs, k=length))


TOKEN: Final = made(40)
HEX: Final = made(64, "0123456789abcdef")
ODD: Final = made(48, SIGNS + "!$%*+/=?_-")
BODY: Final = "\n".join(made(64, SIGNS + "+/") for _ in range(20))
PEM: Final = f"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA{BODY}\n-----END RSA PRIVATE KEY-----\n"
SHORT: Final = "hunter2-xyz"
REDACTOR: Final = Redactor(((TOKEN, "token"), (HEX, "hex key"), (ODD, "password"), (PEM, "App key"), (SHORT, "short")))

Way = Callable[[str], str]
WAYS: Final[dict[str, Way]] = {
    "as it is": str,
    "first half": lambda text: text[: len(text) // 2],
    "last half": lambda text: text[len(text) // 2 :],
    "sixteen": lambda text: text[5 : 5 + PIECE],
    "upper case": str.upper,
    "lower case": str.lower,
    "reversed": lambda text: text[::-1],
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, one before": lambda text: base64.b64encode(b"x" + text.encode() + b"yz").decode(),
    "base64, two before": lambda text: base64.b64encode(b"xy" + text.encode() + b"z").decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(b"x" + text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode() * 3).decode(),
    "base64 in short lines": lambda text: "\n> ".join(
        base64.b64encode(text.encode()).decode()[at : at + 7] for at in range(0, 140, 7)
    ),
    "address": lambda text: quote(text, safe=""),
    "address, every sign": lambda text: "".join(f"%{ord(sign):02x}" for sign in text),
    "JSON": json.dumps,
    "JSON, every sign": lambda text: "".join(f"\\u{ord(sign):04x}" for sign in text),
    "entities": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "entities in hex": lambda text: "".join(f"&#x{ord(sign):X};" for sign in text),
    "zero width": "\u200b".join,
    "zero width, shown": "‹U+200B›".join,
    "soft hyphens": "\xad".join,
    "code spans": lambda text: f"`{text[:9]}``{text[9:]}`",
    "bold": lambda text: f"{text[:9]}**{text[9:]}**",
    "tags": lambda text: f"{text[:9]}<b>{text[9:15]}</b>{text[15:]}",
    "colours": lambda text: "\x1b[1;31m".join(text[at : at + 6] for at in range(0, len(text), 6)),
    "colours in JSON": lambda text: json.dumps("\x1b[0m".join(text[at : at + 6] for at in range(0, len(text), 6))),
    "comments": lambda text: f"{text[:9]}<!-- x -->{text[9:]}",
    "spaced": " ".join,
    "one a line": "\n".join,
    "dashes": lambda text: "-".join(text[at : at + 4] for at in range(0, len(text), 4)),
}


def left(text: str, value: str) -> int:
    """Return the length of the longest piece of a value that is to be read in a text, whatever its case."""
    text, value = text.lower(), value.lower()
    return max(
        size
        for size in range(len(value) + 1)
        if any(value[at : at + size] in text for at in range(len(value) - size + 1))
    )


@pytest.mark.req("X3", "PR4")
@every_row("value", (TOKEN, HEX, ODD))
@every_row("way", WAYS)
def test_known_values_never_leave(way: str, value: str) -> None:
    """Whole or a piece of 16 characters, in whatever way it is written, between other text that stays."""
    written = WAYS[way](value)
    out = REDACTOR.redact(f"Before {written} after.")
    assert "[redacted: " in out
    assert out.startswith("Before"[:4])
    assert out.endswith("after.")
    assert len(out) < 90
    assert written not in out
    assert left(out, value) < PIECE
    assert REDACTOR.redact(out) == out


@pytest.mark.req("X3", "PR4")
@every_row("way", ("as it is", "JSON", "reversed", "hex", "base64", "base64, one before", "base64 in lines", "spaced"))
def test_no_line_of_a_key_leaves(way: str) -> None:
    """Of a key in PEM no line is left, in whatever way it is written; its frame says nothing."""
    out = REDACTOR.redact(f"Before {WAYS[way](PEM)} after.")
    assert len(out) < 420
    assert not [line for line in BODY.splitlines() for piece in (line, WAYS[way](line)) if piece[8:24] in out]
    frame = PEM.split("\n", 1)[0] + "\nMIIEpAIBAAKCAQEA"
    assert REDACTOR.redact(frame) == frame


@pytest.mark.req("X3")
def test_a_short_value_is_found_whole() -> None:
    """Fewer than 16 characters count only together, and fewer than 8 are a word."""
    assert REDACTOR.redact(f"({SHORT})") == "([redacted: short])"
    for way in ("upper case", "reversed", "hex", "base64"):
        assert "[redacted: " in REDACTOR.redact(f"Before {WAYS[way](SHORT)} after."), way
    assert REDACTOR.redact(SHORT[:-1]) == SHORT[:-1]
    assert Redactor((("word", "x"),)).redact("a word") == "a word"
    assert Redactor(((SHORT, "short"),)).redact(f"{SHORT}, {SHORT}") == "[redacted: short], [redacted: short]"


@pytest.mark.req("X3")
def test_odd_values_are_found() -> None:
    """Of signs alone, or one that repeats itself; and what is known can be asked for by itself."""
    redactor = Redactor((("!$%*+/=?_-!$%*+/=?", "signs"), ("ab" * 40, "pattern")))
    assert redactor.redact("x !$%*+/=?_-!$%*+/=? y") == "x [redacted: signs] y"
    assert redactor.redact(f"x {'ab' * 30} y") == "x [redacted: pattern] y"
    assert [(span.start, span.kind) for span in redactor.find_known_secrets(f"x {'ab' * 30} sk-ant-{'c' * 40}")] == [
        (2, "pattern")
    ]


@pytest.mark.req("X3")
@given(st.text(max_size=200), st.integers(0, 24), st.text(max_size=200))
def test_a_piece_of_sixteen_is_always_found(before: str, at: int, after: str) -> None:
    """Wherever it stands and whatever stands around it; doing it again changes nothing."""
    out = REDACTOR.redact(f"{before} {TOKEN[at : at + PIECE]} {after}")
    assert TOKEN[at : at + PIECE] not in out
    assert REDACTOR.redact(out) == out


@given(st.text(max_size=300))
def test_text_without_secrets_stays(text: str) -> None:
    """Not a sign of it is changed."""
    assert REDACTOR.redact(text) == text


def test_the_head_of_all_tokens_is_no_secret() -> None:
    """What every JSON Web Token begins with says nothing; the rest of a token of that form is found."""
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","typ":"JWT"}').decode().rstrip("=")
    token = f"ghs_123456_{head}.{made(60)}.{made(300)}"
    redactor = Redactor(((token, "GitHub token"),))
    assert redactor.redact(f"{head} alone") == f"{head} alone"
    assert made(20) not in redactor.redact(token[-40:])
    assert redactor.redact(token) == "[redacted: GitHub token]"


@pytest.mark.req("X3")
def test_what_is_made_later_is_learned() -> None:
    """Tokens that were made meanwhile are known; no more than a bounded number of them, and the settings' always."""
    redactor = Redactor(((TOKEN, "token"),))
    tokens = [made(40) for _ in range(2 * LEARNED + 1)]
    for token in (*tokens, tokens[-1]):
        redactor.learn(token, "made")
    assert redactor.redact(tokens[-1]) == "[redacted: made]"
    assert redactor.redact(TOKEN) == "[redacted: token]"
    assert redactor.redact(tokens[0]) == tokens[0]


@pytest.mark.req("X3")
def test_what_is_learned_between_two_texts_is_found_in_the_second() -> None:
    """Beside all that was known before."""
    redactor = Redactor(((TOKEN, "token"),))
    tokens = [made(40) for _ in range(LEARNED + 2)]
    for count, token in enumerate(tokens, start=1):
        assert redactor.redact(token) == token
        redactor.learn(token, "made")
        assert redactor.redact(" ".join(tokens[:count])) == " ".join(["[redacted: made]"] * count)


@pytest.mark.req("X3")
@every_row("way", WAYS)
def test_a_sum_finds_what_its_parts_find(way: str) -> None:
    """Values that were indexed apart are found in every way, of the right kind, in whatever order they were added."""
    values = ((TOKEN, "token"), (HEX, "hex"), (ODD, "odd"), (SHORT, "short"))
    text = " and ".join(WAYS[way](value) for value, _ in values)
    whole, empty = KnownSecrets(values), KnownSecrets()
    for order in (values, values[::-1]):
        total = sum((KnownSecrets((value,)) for value in order), empty)
        assert {*total.spans(text, None)} == {*whole.spans(text, None)}
        assert total.values == order
    assert not empty + empty


@pytest.mark.req("X3")
def test_a_fork_learns_for_itself() -> None:
    """It knows the given values; what one of both learns, the other does not."""
    redactor = Redactor(((TOKEN, "token"),))
    fork, ours, theirs = redactor.fork(), made(40), made(40)
    redactor.learn(ours, "made")
    fork.learn(theirs, "made")
    assert fork.values == redactor.values
    assert fork.redact(f"{TOKEN} {ours} {theirs}") == f"[redacted: token] {ours} [redacted: made]"
    assert redactor.redact(f"{TOKEN} {ours} {theirs}") == f"[redacted: token] [redacted: made] {theirs}"


def test_texts_within_json_are_redacted() -> None:
    """At any depth; what is no text stays."""
    assert REDACTOR.redact_json({"a": [TOKEN, 1, None], "b": {"c": TOKEN}}) == {
        "a": ["[redacted: token]", 1, None],
        "b": {"c": "[redacted: token]"},
    }


@pytest.mark.parametrize(
    "text",
    (
        "-----BEGIN PRIVATE KEY-----" * 8_000,
        'password = "' * 20_000,
        "aws " * 58_000,
        "eyJaaaaaaaaaaaaaaaa." * 11_000,
        "://a:b" * 38_000,
        "authorization:bearer " * 11_000,
        "xoxb-1-" * 15_000,
        "sk-" * 30_000 + "T3BlbkFJ" * 2_000,
        "<!--" * 30_000,
        "&" * 100_000,
        TOKEN[:8] * 29_000,
        PEM * 60,
    ),
    ids=range(12),
)
def test_no_text_takes_long(text: str) -> None:
    """What is made to be slow ends like any other; the limit of the test is far above it."""
    out = REDACTOR.redact(text)
    assert REDACTOR.redact(out) == out

"""Secrets: known ones, and those that are found by their form."""

import base64
import json
import random
import string
import sysconfig
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.secrets.known import PIECE, SHORTEST, KnownSecrets
from bot.core.secrets.redaction import KINDS, LEARNED, Redactor, spans
from tests.core.secret_samples import sample
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
    redactor = Redactor(((TOKEN, "token"),))
    fork, ours, theirs = redactor.fork(), made(40), made(40)
    redactor.learn(ours, "made")
    fork.learn(theirs, "made")
    assert fork.values == redactor.values
    assert fork.redact(f"{TOKEN} {ours} {theirs}") == f"[redacted: token] {ours} [redacted: made]"
    assert redactor.redact(f"{TOKEN} {ours} {theirs}") == f"[redacted: token] [redacted: made] {theirs}"


def test_texts_within_json_are_redacted() -> None:
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


SAMPLES: Final = 30
"""Of each pattern."""
PLUGINS: Final = (
    ("aws", "AWSKeyDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("openai", "OpenAIDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
)
FORMS: Final = {
    "Anthropic key": r"sk-ant-(?:api03|oat01|admin01)-[A-Za-z0-9_\-]{86}-[A-Za-z0-9_\-]{6}AA",
    "installation token, as it is now": r"ghs_[1-9][0-9]{3,7}_eyJ[\w\-]{40,60}\.eyJ[\w\-]{60,200}\.[\w\-]{340}",
    "fine-grained token": r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
    "Google key": r"AIza[A-Za-z0-9_\-]{35}",
    "Google client secret": r"GOCSPX-[A-Za-z0-9_\-]{28}",
    "Google token": r"ya29\.[A-Za-z0-9_\-]{60,200}",
    "npm token": r"npm_[A-Za-z0-9]{36}",
    "npm configuration": r"//registry\.example\.org/:_authToken=[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    "Slack app token": r"xapp-1-A[A-Z0-9]{10}-[0-9]{13}-[a-f0-9]{64}",
    "Stripe webhook": r"whsec_[A-Za-z0-9]{32}",
    "AWS in the environment": r"AWS_SECRET_ACCESS_KEY=[A-Za-z0-9/+]{39}[A-Za-z0-9]",
    "password in an address": r"postgres(?:ql)?://[a-z]{4,9}:[A-Za-z][0-9][A-Za-z0-9]{14,30}@db\.example\.org/main",
    "assignment": r"(?:password|client_secret|API_KEY|auth-token) (?:=|:) [\"'][A-Z][a-z][0-9][\w/+]{22,40}[\"']",
    "bearer": r"Authorization: Bearer [A-Z][a-z][0-9][A-Za-z0-9_\-]{30,60}",
    "Hugging Face": r"hf_[A-Za-z]{34}",
    "Twilio": r"SK[a-f0-9]{32}",
    "Telegram": r"[1-9][0-9]{8,9}:AA[A-Za-z0-9_\-]{33}",
    "Azure": r"AccountKey=[A-Za-z0-9+/]{86}==",
}


def oracle(module: str, name: str) -> list[str]:
    """Return the patterns of one detector of Yelp's detect-secrets (PyPI, Apache-2.0); they stay in its package."""
    plugin: Any = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
    return [pattern.pattern for pattern in plugin.denylist]


def recall(pattern: str, seed: str) -> float:
    """Return the share of a pattern's samples that are found, each in the middle of a line."""
    dice = random.Random(seed)
    samples = [sample(pattern, dice) for _ in range(SAMPLES)]
    return sum(any(spans(f"see {each} here")) for each in samples) / SAMPLES


@pytest.mark.req("X3")
@pytest.mark.parametrize(("module", "name"), PLUGINS)
def test_what_others_find_is_found(module: str, name: str) -> None:
    for pattern in oracle(module, name):
        assert recall(pattern, name) >= 0.98, pattern


@pytest.mark.req("X3")
@pytest.mark.parametrize("form", FORMS)
def test_published_forms_are_found(form: str) -> None:
    """Every form that a maker publishes is found in at least 98 % of its samples."""
    assert recall(FORMS[form], form) >= 0.98


@pytest.mark.req("X3")
def test_a_private_key_is_found_with_its_body() -> None:
    """The whole of it goes, on lines of its own, in one string, or cut off; the words that name one stay."""
    body = "\n".join(random.Random(1).choices(["A" * 20 + "b7/+Zq0" * 6], k=12))
    for kind in ("RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "):
        key = f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"
        for text in (key, json.dumps(key), key[:400], key.replace("\n", "\r\n")):
            assert body[:40] not in Redactor().redact(f"x {text} y"), text
    named = 'if line.startswith("-----BEGIN PRIVATE KEY-----"): ...\n-----END PRIVATE KEY-----'
    assert Redactor().redact(named) == named


@pytest.mark.req("X3")
def test_a_json_web_token_is_found() -> None:
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=")
        for each in ({"alg": "RS256"}, {"iss": "1"})
    ]
    assert [span.kind for span in spans(f"token={'.'.join(parts)}.{'c2lnbmF0dXJl' * 4}")] == ["JSON Web Token"]


@pytest.mark.req("X3")
@every_row(
    "text",
    (
        'password = "correct-horse-battery"',
        'token = os.environ["GITHUB_TOKEN"]',
        "secret_key: ${{ secrets.DEPLOY_KEY }}",
        'api_key="YOUR_API_KEY_HERE"',
        'access_key = "AKIAIOSFODNN7EXAMPLE"',
        "postgres://user:${PASSWORD}@localhost/db and https://user:pass@host and http://[::1]:8000/@x",
        "digest sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 6f7ef4d1a8a54be48d57b3bd9da6d3a4b7f8c3a1, MAC 0123456789abcdef0123456789abcdef",
        'token_url = "https://example.org/oauth2/token/v1/request"',
        'key = "bot.core.secrets.redaction.Redactor2"',
        'passwd_file="/etc/passwd.d/users01.conf"',
        "sk-ant-... and ghp_... and xoxb-your-token stand for keys",
    ),
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert not list(spans(text))


def test_no_format_is_shorter_than_what_is_looked_for() -> None:
    parser = import_module("re._parser")
    assert min(parser.parse(kind.pattern).getwidth()[0] for kind in KINDS) >= SHORTEST


SUFFIXES: Final = {".py", ".pyi", ".md", ".txt", ".json", ".toml", ".js", ".c", ".h"}
LINES: Final = (5, 20, 60, 200)
LARGEST: Final = 500_000


OURS: Final = Path(__file__).parents[2]
LIBRARY, PACKAGES = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
FEW: Final = (OURS / "bot", LIBRARY / "email", LIBRARY / "http", PACKAGES / "pydantic")
MANY: Final = (OURS / "bot", LIBRARY, PACKAGES)


def alarms(count: int, roots: Sequence[Path]) -> list[str]:
    """Look at so many pieces of files, and list the files of those in which something is found."""
    dice = random.Random(count)
    files = sorted(path for root in roots for path in root.rglob("*") if path.suffix in SUFFIXES)
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
    found = alarms(count, roots)
    print(f"{len(found)} alarms in {count} pieces: {found}")  # noqa: T201 - the figure is for reading
    assert len(found) <= count // 100

"""Secrets that nobody told us: found by their form, and what only looks like one is left alone."""

import base64
import json
import random
from importlib import import_module
from typing import Any, Final

import pytest

from bot.core.secrets.known import SHORTEST
from bot.core.secrets.redaction import KINDS, Redactor, spans
from tests.core.secret_samples import sample
from tests.rows import every_row

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
    """Of what each pattern of a public rule set matches, at least 98 % is found."""
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
    """Whatever it says, in three parts."""
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
    """Names, examples, references, digests and addresses are no secrets."""
    assert not list(spans(text))


def test_no_format_is_shorter_than_what_is_looked_for() -> None:
    """Shorter texts are not searched at all."""
    parser = import_module("re._parser")
    assert min(parser.parse(kind.pattern).getwidth()[0] for kind in KINDS) >= SHORTEST

"""Removes secrets from every text that leaves (X3, PR4): known ones, and what has the format of one."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import log2
from typing import Any, Final, TypeAlias

from bot.core.errors import CanaryShown
from bot.core.secrets.known import SHORTEST, FoldedText, KnownSecrets, Span, plain

# --- Unknown secrets, found by their vendors' formats (X3) -----------------------------------------------------------
# One row per format: its name, its anchors (one of them must occur; checked first because that is cheap), and its
# pattern. If the pattern has a group, the group is the secret. Every repetition is bounded and no two adjacent ones can
# match the same text, so that no text takes long. The vendor's page is named above each row.


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One format of secret. `guess`: recognized by its context and then judged by its appearance."""

    name: str
    anchors: tuple[str, ...]
    pattern: str
    guess: bool = False
    any_case: bool = False
    after: str = ""
    """A pattern that must match right before it, on the same line."""


# A token does not start in the middle of a longer word.
_LEFT: Final = r"(?<![A-Za-z0-9_-])"
_WORD: Final = r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)"

KINDS: Final = (
    # https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
    # An installation token may also be ghs_, the App's id, and a JSON Web Token.
    SecretKind("GitHub token", ("ghs_",), r"ghs_\d{1,12}_[A-Za-z0-9_.-]{20,4000}"),
    SecretKind("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9_]{36,255}"),
    SecretKind("GitHub token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,255}"),
    # https://platform.claude.com/docs/en/api/overview
    SecretKind("Anthropic key", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{20,300}"),
    # https://platform.openai.com/docs/api-reference/authentication
    SecretKind("OpenAI key", ("T3BlbkFJ",), r"sk-[A-Za-z0-9_-]{0,150}T3BlbkFJ[A-Za-z0-9_-]{20,150}"),
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html ; AWS's own examples end with EXAMPLE.
    SecretKind(
        "AWS access key",
        ("AKIA", "ASIA", "ABIA", "ACCA", "A3T"),
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])(?![A-Z0-9]{9}EXAMPLE)[A-Z0-9]{16}(?![A-Za-z0-9])",
    ),
    SecretKind(
        "AWS secret key",
        ("aws",),
        r"['\"](?![A-Za-z0-9+/]{30}EXAMPLEKEY)([A-Za-z0-9+/]{40})['\"]",
        any_case=True,
        after=r"aws[^\n]{0,20}(?:key|pwd|pw|password|pass|token)[^\n]{0,20}$",
    ),
    SecretKind(
        "AWS secret key",
        ("aws_secret",),
        r"aws_secret(?:_access)?_key\s{0,3}[=:]\s{0,3}(?![A-Za-z0-9+/]{30}EXAMPLEKEY)([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
        any_case=True,
    ),
    # https://cloud.google.com/docs/authentication/api-keys ; https://developers.google.com/identity/protocols/oauth2
    SecretKind("Google key", ("AIza",), r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    SecretKind("Google key", ("GOCSPX-",), r"GOCSPX-[A-Za-z0-9_-]{28}"),
    SecretKind("Google token", ("ya29.",), r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,1000}"),
    # https://api.slack.com/concepts/token-types ; https://api.slack.com/messaging/webhooks
    SecretKind("Slack token", ("xox",), r"xox[abeoprs]-(?:\d{1,20}-){1,9}[a-z0-9]{1,100}", any_case=True),
    SecretKind("Slack token", ("xox",), r"xox[abeoprs]-[a-z0-9-]{24,200}", any_case=True),
    SecretKind("Slack token", ("xapp-",), r"xapp-\d-[A-Za-z0-9]{5,20}-\d{5,20}-[a-z0-9]{20,100}"),
    SecretKind(
        "Slack webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[TE]\w{1,30}/\w{1,30}/\w{1,60}",
        any_case=True,
    ),
    # https://docs.stripe.com/keys ; https://docs.stripe.com/webhooks
    SecretKind(
        "Stripe key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_"), r"[rs]k_(?:live|test)_[A-Za-z0-9]{24,250}"
    ),
    SecretKind("Stripe webhook secret", ("whsec_",), r"whsec_[A-Za-z0-9+/]{24,100}"),
    # https://docs.npmjs.com/about-access-tokens
    SecretKind("npm token", ("npm_",), rf"{_LEFT}npm_[A-Za-z0-9]{{36}}(?![A-Za-z0-9])"),
    SecretKind(
        "npm token",
        (":_authtoken",),
        r":_authToken\s{0,4}=\s{0,4}['\"]?((?!\$)[A-Za-z0-9_./+=-]{20,300})",
        any_case=True,
    ),
    # https://pypi.org/help/#apitoken
    SecretKind("PyPI token", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{50,1000}"),
    # RFC 7515, 3.1
    SecretKind("JSON Web Token", ("eyJ",), r"(?<![A-Za-z0-9_-])eyJ[\w-]{8,2000}\.eyJ[\w-]{6,8000}\.[\w-]{16,2000}"),
    # RFC 7468, 10 ; RFC 4880, 6.2. Without a body it is a heading, not a key.
    SecretKind(
        "private key",
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----((?=(?:[^-]|-(?!----)){0,300}?[A-Za-z0-9+/]{40})"
        r"(?:[^-]|-(?!----)){40,20000})(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?",
    ),
    SecretKind("private key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    # RFC 3986, 3.2.1
    SecretKind(
        "password in an address",
        ("://",),
        r"://[^\s:/?#@\[\]'\"<>`{}]{0,100}:([^\s:/?#@\[\]'\"<>`{}$*]{6,200})@(?=[\w\[])",
        guess=True,
    ),
    # https://learn.microsoft.com/en-us/azure/storage/common/storage-account-keys-manage
    SecretKind("Azure storage key", ("AccountKey=",), r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    # https://docs.gitlab.com/security/tokens/
    SecretKind(
        "GitLab token",
        ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glptt-", "glimt-", "glagent-", "gloas-"),
        rf"{_LEFT}gl(?:pat|dt|ft|soat|rt|cbt|ptt|imt|agent|oas)-[A-Za-z0-9_.-]{{20,300}}",
    ),
    SecretKind("GitLab token", ("GR1348941",), r"GR1348941[A-Za-z0-9_-]{20,50}"),
    # https://huggingface.co/docs/hub/security-tokens
    SecretKind("Hugging Face token", ("hf_",), rf"{_LEFT}hf_[A-Za-z0-9]{{34,60}}(?![A-Za-z0-9_])"),
    # https://www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys
    SecretKind("SendGrid key", ("SG.",), r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    # https://www.twilio.com/docs/iam/api-keys
    SecretKind("Twilio key", ("SK",), r"(?<![A-Za-z0-9])SK[0-9a-z]{32}(?![A-Za-z0-9])"),
    # https://core.telegram.org/bots/api#authorizing-your-bot
    SecretKind("Telegram token", (":AA",), r"(?<![\w:])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    # https://docs.digitalocean.com/reference/api/create-personal-access-token/
    SecretKind("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[opr]_v1_[a-f0-9]{64}"),
    # https://docs.docker.com/security/access-tokens/
    SecretKind("Docker token", ("dckr_",), r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,100}"),
    # https://developer.hashicorp.com/vault/docs/concepts/tokens
    SecretKind("Vault token", ("hvs.", "hvb."), rf"{_LEFT}hv[sb]\.[A-Za-z0-9_-]{{24,300}}"),
    # https://docs.databricks.com/aws/en/dev-tools/auth/pat
    SecretKind("Databricks token", ("dapi",), rf"{_LEFT}dapi[0-9a-f]{{32}}(?:-\d)?(?![A-Za-z0-9])"),
    # https://shopify.dev/docs/apps/build/authentication-authorization
    SecretKind("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    # https://mailchimp.com/developer/marketing/guides/quick-start/
    SecretKind("Mailchimp key", ("-us",), r"(?<![A-Za-z0-9])[0-9a-z]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    # https://developer.squareup.com/docs/build-basics/access-tokens
    SecretKind("Square secret", ("sq0",), r"sq0(?:csp|atp)-[A-Za-z0-9_\\-]{22,60}"),
    # RFC 7617, 2 ; RFC 6750, 2.1
    SecretKind(
        "authorization header",
        ("authorization",),
        r"authorization['\"]?\s{0,3}[:=]\s{0,3}['\"]?(?:bearer|basic|token)\s{1,3}([A-Za-z0-9._~+/-]{20,4000}={0,2})",
        guess=True,
        any_case=True,
    ),
    SecretKind(
        "password or token",
        ("pass", "pwd", "secret", "token", "key", "credential"),
        r"[:=>]\s{0,3}['\"]([^\s'\"\\<>{}$]{10,200})['\"]",
        after=rf"{_WORD}[\w-]{{0,20}}['\"]?\s{{0,3}}[:=]{{0,2}}$",
        guess=True,
        any_case=True,
    ),
)

_ANCHORS: Final = tuple(
    [(anchor, number) for number, kind in enumerate(KINDS) for anchor in kind.anchors if kind.any_case == any_case]
    for any_case in (False, True)
)
"""Each anchor with the number of its kind: first the case-sensitive ones, then those in any case."""
_CONTEXT_CHARACTERS: Final = 64
"""Characters before a secret that are searched for its name."""
_ENTROPY: Final = 3.4
"""Bits per character. Examples made up by people have less, machine-made values have more."""
_NAME: Final = re.compile(
    r"[A-Za-z][a-z]*(?:[-_. /:][A-Za-z]+\d{0,2})*|[A-Z0-9_]+|"
    r"[a-z0-9_.-]*(?:example|test|fake|dummy|sample|xxx|\.\.\.)\S*"
)
_PLACE: Final = re.compile(r"(?:https?:/)?/|\.{1,2}/|[\w-]+(?:\.[\w-]+)+(?:\(|$)|[\w./-]+\.[a-z]{1,5}$")


def spans(text: str) -> Iterator[Span]:
    """Yield the spans of a text that have the format of a secret. Spans may overlap."""
    for number in _find_candidates(text):
        kind = KINDS[number]
        for match in _compile_pattern(number).finditer(text):
            group = 1 if match.re.groups else 0
            before = text[max(0, match.start() - _CONTEXT_CHARACTERS) : match.start()]
            if kind.after and not re.search(kind.after, before, re.IGNORECASE):
                continue
            if not kind.guess or _is_plausible(match.group(group)):
                yield Span(match.start(group), match.end(group), kind.name)


def _find_candidates(text: str) -> list[int]:
    """Return the numbers of the kinds that have an anchor in a text."""
    lower, (exact, any_case) = text.lower(), _ANCHORS
    numbers = {number for anchor, number in exact if anchor in text}
    numbers.update([number for anchor, number in any_case if anchor in lower])
    return sorted(numbers)


@cache
def _compile_pattern(number: int) -> re.Pattern[str]:
    kind = KINDS[number]
    return re.compile(kind.pattern, re.IGNORECASE if kind.any_case else 0)


def _is_plausible(value: str) -> bool:
    """Return whether a value looks made by a machine or a careful person, unlike a name or an example."""
    if _NAME.fullmatch(value) or _PLACE.match(value):
        return False
    mixed = sum(any(map(test, value)) for test in (str.isdigit, str.islower, str.isupper))
    signs = len(value)
    entropy = -sum(count / signs * log2(count / signs) for count in Counter(value).values())
    return mixed >= 2 and any(map(str.isdigit, value)) and entropy >= min(_ENTROPY, log2(signs) * 0.8)


# --- The redactor (X3, PR4) ------------------------------------------------------------------------------------------
# `Redactor.redact` returns the text with ``[redacted: KIND]`` in place of each secret; repeating it changes nothing.
# `Redactor.find_secrets` lists them, for what must not change silently: commits, and the contract of a plan.

LEARNED: Final = 16
"""Tokens per generation. Two generations of tokens made at run time are remembered; older ones have expired."""
_PASSES: Final = 4
"""The number of passes. Removing secrets can bring another one together, so redaction repeats up to this limit."""

Values: TypeAlias = tuple[tuple[str, str], ...]
"""Secret values, each with its kind. A kind consists of letters, digits, and spaces."""


@dataclass(slots=True)
class Redactor:
    """Finds and removes the known secrets of one process, and anything with the format of a secret."""

    values: Values = field(default=(), repr=False)
    _given: "_Indexed" = field(init=False, repr=False)
    _young: "_Indexed" = field(init=False, repr=False)
    _old: "_Indexed" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._given, self._young, self._old = _Indexed(self.values), _Indexed(), _Indexed()

    def learn(self, value: str, kind: str) -> None:
        if any(value == existing for existing, _ in (*self._young.values, *self._old.values)):
            return
        if len(self._young.values) >= LEARNED:
            self._old, self._young = self._young, _Indexed()
        self._young.values = (*self._young.values, (value, kind))

    def fork(self) -> "Redactor":
        """Return a redactor for the same values, whose index they share, that remembers tokens of its own."""
        redactor = Redactor()
        redactor.values, redactor._given = self.values, self._given
        return redactor

    def redact(self, text: str) -> str:
        """Return the text without secrets; a text without any is returned as it is."""
        passes = 0
        while (spans := self.find_secrets(text)) and passes < _PASSES:
            text, passes = _without(text, spans), passes + 1
        return text

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value with every text in it redacted, except keys."""
        match value:
            case str():
                return self.redact(value)
            case dict():
                return {key: self.redact_json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.redact_json(item) for item in value]
            case _:
                return value

    def find_secrets(self, text: str) -> Sequence[Span]:
        """Return the secrets in a text, in order and without overlaps."""
        if len(text) < SHORTEST:  # too short for a secret, as most facts of a log line are
            return ()
        other = plain(text)
        found = [*self._known_spans(text, other), *spans(text)]
        if other is not None:
            found += [Span(*other.original(span.start, span.end), span.kind) for span in spans(other.text)]
        return _join_overlaps(found)

    def find_known_secrets(self, text: str) -> Sequence[Span]:
        """Return the known secrets in a text, in order and without overlaps."""
        return _join_overlaps(self._known_spans(text, plain(text)))

    def _known_spans(self, text: str, other: FoldedText | None) -> Iterator[Span]:
        for indexed in (self._given, self._young, self._old):  # `learn` moves values rightward, so none is missed
            if secrets := indexed.secrets():
                yield from secrets.spans(text, other)


@dataclass(slots=True)
class _Indexed:
    """Values that are indexed at the next search, each only once, because indexing a key takes milliseconds.

    Values are only added, at the end.
    """

    values: Values = field(default=(), repr=False)
    _secrets: KnownSecrets = field(default=KnownSecrets(), repr=False)

    def secrets(self) -> KnownSecrets:
        """Return the index of the values. Another thread may add one meanwhile, which the next call then finds."""
        index, values = self._secrets, self.values
        if new := values[len(index.values) :]:
            index = self._secrets = index + KnownSecrets(new)
        return index


def _join_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Return spans with overlapping ones joined, under the kind of the one that begins first and is longest."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if joined and span.start < joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end), joined[-1].kind)
        else:
            joined.append(span)
    return joined


def _without(text: str, spans: Sequence[Span]) -> str:
    parts, at = list[str](), 0
    for span in spans:
        parts += (text[at : span.start], f"[redacted: {span.kind}]")
        at = span.end
    return "".join(parts) + text[at:]


# --- The alarm for canaries (X3) -------------------------------------------------------------------------------------
# A canary is a worthless secret that nobody has a reason to repeat. It lies where only an attacker looks. If it appears
# in a tool's output or in the model's words, something outside the sandbox was read. The session then ends, and so do
# all other sessions of its thread.

KIND: Final = "canary"


@dataclass(slots=True)
class CanaryAlarm:
    """Watches everything that a thread's sessions read and write. Once triggered, it stays triggered."""

    values: tuple[str, ...] = field(default=(), repr=False)
    is_triggered: bool = False
    _known: KnownSecrets | None = field(init=False, repr=False, default=None)
    """The values, indexed at the first text: most checks of a thread run no session."""

    @property
    def named_values(self) -> Values:
        return tuple((value, KIND) for value in self.values)

    def check_text(self, text: str) -> None:
        """Raise CanaryShown for a text that contains a canary, and for every text after that."""
        if self._known is None:
            self._known = KnownSecrets(self.named_values)
        self.is_triggered = self.is_triggered or bool(
            self._known and any(True for _ in self._known.spans(text, plain(text)))
        )
        if self.is_triggered:
            raise CanaryShown

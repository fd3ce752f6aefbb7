"""The plan document: its canonical form, its digest, and what becomes of its text and notes."""

import hashlib
import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.approval import Verdict, VerdictOutcome
from bot.core.codec import decode, encode
from bot.core.comment import changes, plan_text
from bot.core.errors import Refused
from bot.core.maintenance import Operation, OperationKind, TaskFinding
from bot.core.names import CommitId, RepositoryId, ThreadNumber
from bot.core.plan import (
    HIDDEN_CHARACTERS,
    HIDDEN_SHOWN,
    MARKDOWN_LIMIT,
    NOTES_LIMIT,
    Contract,
    Hidden,
    PlanDocument,
    canonical_bytes,
    disarm_text,
    from_json,
    named_paths,
    normalize_notes,
    normalize_text,
    to_json,
)
from bot.core.pull_text import PullOrigin, pull_body
from bot.core.turn import Actor
from tests.rows import every_row

PLAN: Final = PlanDocument(
    repository=RepositoryId(123456),
    thread=ThreadNumber(42),
    plan=2,
    base=CommitId("0123456789abcdef0123456789abcdef01234567"),
    markdown='Rename "Grüße" 👋\n\n- step',
    contract=Contract(scope=("src/**", "README.md"), commands=("pytest -q",), hosts=(), dependencies=("attrs",)),
    tier="normal",
    budget_usd=5,
    expires=datetime(2026, 11, 27, 8, 30, tzinfo=UTC),
)
# Written by hand, not by the code: keys in order, no white space, UTF-8 as it is, LF inside of texts.
LITERAL: Final = (
    '{"base":"0123456789abcdef0123456789abcdef01234567","budget_usd":5.0,"commands":["pytest -q"],'
    '"dependencies":["attrs"],"expires":"2026-11-27T08:30:00Z","hosts":[],'
    '"markdown":"Rename \\"Grüße\\" 👋\\n\\n- step","plan":2,"repository":123456,'
    '"scope":["src/**","README.md"],"thread":42,"tier":"normal","v":1}'
).encode()

TEXTS = st.text(max_size=40)
LISTS = st.lists(TEXTS, max_size=3).map(tuple)
PLANS = st.builds(
    PlanDocument,
    repository=st.integers(0, 2**63).map(RepositoryId),
    thread=st.integers(1, 2**32).map(ThreadNumber),
    plan=st.integers(1, 99),
    base=st.text("0123456789abcdef", min_size=40, max_size=40).map(CommitId),
    markdown=TEXTS,
    contract=st.builds(Contract, LISTS, LISTS, LISTS, LISTS),
    tier=st.sampled_from(("low", "normal", "high")),
    budget_usd=st.floats(0, 1e6) | st.integers(0, 1000),
    expires=st.datetimes(
        datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)  # noqa: DTZ001 - hypothesis adds the zone
    ).map(lambda moment: moment.replace(microsecond=0)),
    tree=st.just("") | st.text("0123456789abcdef", min_size=40, max_size=40),
    hidden=st.just(Hidden()) | st.lists(TEXTS, min_size=1, max_size=30).map(Hidden.of),
    changed=TEXTS,
    notes=TEXTS,
)  # fmt: skip


@pytest.mark.req("PR5")
def test_the_canonical_form_is_byte_for_byte_what_was_written_by_hand() -> None:
    assert canonical_bytes(PLAN) == LITERAL


@pytest.mark.req("PR5")
def test_digest() -> None:
    """The digest is the sha256 of those bytes, today and in every later version; the short one is its first 12."""
    assert PLAN.digest == hashlib.sha256(LITERAL).hexdigest()
    assert PLAN.digest == "cc172c9844fcf758e6c5534b14f93dea4662d460866ebc00be7c13bd96e8f6b6"
    assert PLAN.short_digest == "cc172c9844fc"


@given(PLANS)
def test_canonical_form(plan: PlanDocument) -> None:
    """Keys are sorted, no white space stands between tokens, no mark before, no newline after, nothing is escaped."""
    data = canonical_bytes(plan)
    pairs = json.loads(data, object_pairs_hook=list)
    assert [key for key, _ in pairs] == sorted(key for key, _ in pairs)
    assert data == json.dumps(json.loads(data), separators=(",", ":"), ensure_ascii=False).encode()
    assert (data[:1], data[-1:]) == (b"{", b"}")


@pytest.mark.req("PR5")
@given(PLANS)
def test_round_trip(plan: PlanDocument) -> None:
    """What is read back from its bytes is the same document, with the same digest."""
    again = from_json(json.loads(canonical_bytes(plan)))
    assert again == plan
    assert again.digest == plan.digest


@pytest.mark.req("PR5")
@pytest.mark.parametrize(
    "same",
    (
        replace(PLAN, budget_usd=5.0),
        replace(PLAN, expires=PLAN.expires.astimezone(timezone(timedelta(hours=5, minutes=30)))),
    ),
    ids=("budget", "time zone"),
)
def test_equal_documents(same: PlanDocument) -> None:
    """Equal documents give equal bytes, however a number or a moment was written."""
    assert same == PLAN
    assert canonical_bytes(same) == LITERAL


CHANGES: Final[dict[str, Any]] = {
    "repository": RepositoryId(1),
    "thread": ThreadNumber(43),
    "plan": 3,
    "base": CommitId("f" * 40),
    "markdown": "x",
    "tier": "high",
    "budget_usd": 5.01,
    "expires": PLAN.expires + timedelta(seconds=1),
    "tree": "e" * 40,
    "hidden": Hidden(1, ("<!-- psst -->",)),
    "changed": "-old\n+new",
    "notes": "Root cause: a.py:1",
    "findings": (TaskFinding("lodash", "Update lodash"),),
    "branch": "plangate/7-fix-it",
    "operations": (Operation(OperationKind.CLOSE, 7),),
    "contract": Contract(),
}
CONTRACTS: Final = [
    replace(PLAN.contract, scope=("x",)),
    replace(PLAN.contract, commands=("x",)),
    replace(PLAN.contract, hosts=("x",)),
    replace(PLAN.contract, dependencies=("x",)),
    replace(PLAN.contract, classes=(("docs", "x"),)),
]


@pytest.mark.req("PR5")
@every_row("field", [field.name for field in fields(PlanDocument) if field.name != "estimate"])
def test_every_field_is_in_the_digest(field: str) -> None:
    """Whatever field changes, the digest changes; the estimate is shown beside the document and no part of it."""
    assert replace(PLAN, **{field: CHANGES[field]}).digest != PLAN.digest


@pytest.mark.req("PR5")
def test_every_part_of_the_contract_is_in_the_digest() -> None:
    """The same text as scope, command, host or dependency gives four other digests, and so do path classes."""
    digests = {replace(PLAN, contract=contract).digest for contract in CONTRACTS}
    assert len(digests | {PLAN.digest}) == 6


@pytest.mark.req("PR1")
@pytest.mark.parametrize(
    ("path", "can"),
    (("src/a.py", True), (".github/workflows/ci.yml", True), ("a/!b", True), ("!a", False), ("[", True)),
)
def test_what_a_plan_can_name(path: str, can: bool) -> None:
    assert Contract().can_name(path) is can


@pytest.mark.req("PR5")
def test_a_plan_in_the_journal_has_its_keys_in_one_order() -> None:
    full = replace(
        PLAN,
        contract=replace(PLAN.contract, classes=(("docs", "x"),)),
        tree="t",
        hidden=Hidden(1, ("x",)),
        changed="c",
        notes="n",
        findings=(TaskFinding("a", "b"),),
        operations=(Operation(OperationKind.CLOSE, 1),),
        branch="b",
    )
    assert " ".join(to_json(full)) == (
        "v repository thread plan base markdown scope commands hosts dependencies tier budget_usd expires "
        "tree hidden changed classes notes operations branch findings"
    )


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in to_json(PLAN).items() if name != key}


@every_row(
    "value",
    (
        {**to_json(PLAN), "v": 2},
        {**to_json(PLAN), "v": "1"},
        {**to_json(PLAN), "more": 1},
        {},
        *(without(key) for key in to_json(PLAN)),
    ),
)
def test_other_formats(value: dict[str, Any]) -> None:
    """Another format, a key too many and a key too few are refused, with the cure."""
    with pytest.raises(Refused, match=r"not a plan document of format 1: make the plan again"):
        from_json(value)


@pytest.mark.parametrize(
    ("text", "normal"),
    (
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("\r\n\r\n a  \r\n\r\n\tb\t\r\n\r\n", "a\n\n\tb"),
        ("a  \nb", "a\nb"),
        ("# Ä\n", "# Ä"),
        ("- [ ] do", "- ☐ do"),
        ("\x1b[8mhidden", "‹U+001B›[8mhidden"),
        ("lost \ud83d half", "lost ‹U+D83D› half"),
    ),
)
def test_normalise(text: str, normal: str) -> None:
    """Newlines become LF, trailing space and blank edges go, what would act is made readable."""
    assert normalize_text(text) == normal


@given(st.text(st.characters(codec=None) | st.sampled_from("-[] x\r\n\t"), min_size=1))
def test_normalise_twice(text: str) -> None:
    """What is normalised stays as it is, and can be hashed whatever it was made of."""
    try:
        once = normalize_text(text)
    except Refused:
        return
    assert normalize_text(once) == once
    assert "\r" not in once
    assert replace(PLAN, markdown=once).digest


@pytest.mark.parametrize("text", ("", " ", "\n\r\n", "\t \u3000\n"))
def test_a_plan_without_text_is_refused_with_the_cure(text: str) -> None:
    with pytest.raises(Refused, match=r"empty: hand in the plan"):
        normalize_text(text)


@pytest.mark.req("P5")
def test_limit() -> None:
    """40,000 characters are a plan; one more goes back, with both figures; newlines at the edges do not count."""
    assert len(normalize_text("ä" * MARKDOWN_LIMIT + "\r\n\r\n")) == 40_000
    with pytest.raises(Refused, match=r"has 40,001 characters, the limit is 40,000: shorten it"):
        normalize_text("ä" * (MARKDOWN_LIMIT + 1))


@every_row(
    ("text", "shown"),
    (
        ("- [ ] a", "- ☐ a"),
        ("* [x] a\n+ [X] b", "* ☑ a\n+ ☑ b"),
        ("10. [ ] a\n1) [x] b", "10. ☐ a\n1) ☑ b"),
        ("  - [ ] nested", "  - ☐ nested"),
        ("- 1. [ ] both", "- 1. ☐ both"),
        ("> - [ ] quoted\n>- [ ] close", "> - ☐ quoted\n>- ☐ close"),
        ("-\n  [ ] on the next line", "-\n  ☐ on the next line"),
        ("-\n> [ ] on the next, quoted", "-\n> ☐ on the next, quoted"),
        ("- [\u00a0] a", "- ☐ a"),
        ("- [ ]", "- ☐"),
        ("- [ ] Approve this plan", "- ☐ Approve this plan"),
    ),
)
def test_a_task_list_box_is_shown_as_a_sign_that_nobody_can_tick(text: str, shown: str) -> None:
    assert disarm_text(text) == shown


@pytest.mark.req("PR5")
@pytest.mark.parametrize(
    "text",
    (
        "board[x] = 1",
        "`a[ ]` and `b[X]`",
        "- [x](https://example.org)",
        "- [x]: note",
        "- see [x]",
        "[ ] no list",
        "\U0001f469\u200d\U0001f4bb e\u0301 \ufe0f",
    ),
)
def test_code_links_and_plain_text_are_shown_as_they_are(text: str) -> None:
    assert disarm_text(text) == text


@pytest.mark.req("X2")
@every_row("sign", "\x00\x07\x08\x0b\x1b\x7f\x9b\u202e\u2066\ud800")
def test_controls(sign: str) -> None:
    """What a terminal obeys, what turns text around and what is no character is shown by its number."""
    assert disarm_text(f"a{sign}b") == f"a‹U+{ord(sign):04X}›b"


@pytest.mark.req("P5")
@every_row(
    ("text", "paths"),
    (
        ("Edit bot/core/plan.py and README.md.", ("README.md", "bot/core/plan.py")),
        ("`src/app.ts`, (docs/a.md) \"x/y.c\" 'z/w.h'", ("docs/a.md", "src/app.ts", "x/y.c", "z/w.h")),
        ("All of `src/` and tests/unit/.", ("src/**", "tests/unit/**")),
        ("in docs/a.md:12", ("docs/a.md",)),
        (".github/workflows/ci.yml", (".github/workflows/ci.yml",)),
        ("a/b.py twice: a/b.py", ("a/b.py",)),
        ("- setup.cfg\n- x/my-file.test.js", ("setup.cfg", "x/my-file.test.js")),
        ("https://example.org/a/b.py", ()),
        ("mail me@example.org", ()),
        ("e.g. this, i.e. that, v1.2.3, 1.5", ()),
        ("and/or, foo/bar", ()),
        ("/etc/passwd.d", ()),
        ("nothing at all", ()),
    ),
)
def test_named_paths(text: str, paths: tuple[str, ...]) -> None:
    """Files with an extension and folders with a slash at the end are paths; addresses and prose are not."""
    assert named_paths(text) == paths


@pytest.mark.req("X1")
@given(st.lists(st.text(), max_size=40), st.lists(st.text(), max_size=40))
def test_hidden(one: list[str], other: list[str]) -> None:
    """Of what nobody sees all is counted, and a few are shown, each as one short line that a terminal can print."""
    both = Hidden.of(one) + Hidden.of(other)
    assert both.count == len(one) + len(other)
    assert len(both.shown) <= HIDDEN_SHOWN
    assert all(len(line) <= HIDDEN_CHARACTERS and (line.isprintable() or not line) for line in both.shown)
    assert decode(Hidden, encode(both)) == both


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    ("fragment", "shown"),
    (
        ("<!--\n a  b -->", "<!-- a b -->"),
        ("- [x] Approve this plan", "- ☑ Approve this plan"),
        ("a\u200bb", "a‹U+200B›b"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 299 + "…"),
        ("\u200b" * 300, "‹U+200B›" * 37 + "‹U+…"),
    ),
)
def test_hidden_fragment(fragment: str, shown: str) -> None:
    """White space is one space, boxes are no boxes, and what does not print is counted as it is written."""
    assert Hidden.of([fragment]).shown == (shown,)


NOTES: Final = "Root cause: `parcel/shipping.py:9`.\n\nRuled out: rounding."
NOTED: Final = replace(PLAN, notes=NOTES)


@pytest.mark.req("K2", "PR5")
def test_notes_are_part_of_the_digest() -> None:
    """They are a key of the canonical form where there are any; a document without them keeps its recorded digest."""
    assert json.loads(canonical_bytes(NOTED)) == json.loads(LITERAL) | {"notes": NOTES}
    assert NOTED.digest == "16d0e2082930342f5cff7bcbfbd9ae924317ab1abe87e81aa5175b6fbf789da2"
    assert PLAN.digest == "cc172c9844fcf758e6c5534b14f93dea4662d460866ebc00be7c13bd96e8f6b6"
    assert from_json(json.loads(canonical_bytes(NOTED))) == NOTED


@pytest.mark.req("K2", "PR5")
def test_notes_are_shown_folded() -> None:
    """Who decides finds them below the plan's text, before what it may do; without notes nothing is said of any."""
    folded = f"<details><summary>Notes for the session that carries it out</summary>\n\n{NOTES}\n\n</details>"
    assert f"- step\n\n{folded}\n\n### What it may do\n\n" in plan_text(NOTED, "HOW")
    assert "Notes" not in plan_text(PLAN, "HOW")


def test_notes_of_a_pull_request() -> None:
    origin = PullOrigin(("will",), Verdict(VerdictOutcome.APPROVED, (Actor(1, "maya"),)), PLAN.expires)
    body = pull_body(NOTED, origin, summary="Done.", checks=())
    assert plan_text(NOTED).rstrip() in body


@pytest.mark.req("PR5")
def test_changed_notes_are_a_change() -> None:
    """A version that changes nothing but its notes shows that to who read the version before."""
    added = "".join(f"+{line}\n" for line in NOTES.split("\n"))
    assert added in changes(PLAN, NOTED)


def test_long_notes() -> None:
    """They are normalized as the text is; too long, they go back with what to leave out."""
    assert normalize_notes("\r\n- [ ] a  \r\n") == "- ☐ a"
    assert normalize_notes(" \n") == ""
    with pytest.raises(Refused, match=r"the notes have 6,001 characters, the limit is 6,000: keep what"):
        normalize_notes("x" * (NOTES_LIMIT + 1))

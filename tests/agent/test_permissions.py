"""The tool gate: every tool in every mode, and that rules never widen it (P1, P2, P4, P7)."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions.tool_gate import (
    DECISIONS,
    CallKind,
    Decision,
    Mode,
    PermissionGate,
    Rule,
    ToolRules,
    next_mode,
)
from bot.agent.subagents.types import TYPES
from bot.core.transcript import Json
from tests.agent.gate_cases import ALLOW, ASK, CASES, DENY, EXPECTED, MODES, ROWS, SUSPEND, TOOLS, asked, decide, gate
from tests.rows import every_row


@pytest.mark.req("P1", "P4")
@every_row(("case", "mode"), list(EXPECTED))
def test_every_tool_in_every_mode(case: str, mode: Mode) -> None:
    """The decision table, row by row."""
    assert decide(case, mode, PermissionGate()) is EXPECTED[case, mode]


@pytest.mark.req("P1")
def test_the_table_is_complete() -> None:
    """Every tool has a row above, every kind a word in every mode, and every refusal says why."""
    assert {name for name, _ in CASES.values()} == set(TOOLS)
    assert set(CASES) == {row[0] for row in ROWS}
    assert {asked(case).kind for case in CASES} == set(CallKind)
    for mode, kind in itertools.product(Mode, CallKind):
        ruling = DECISIONS[mode][kind]
        assert ruling.why or ruling.decision in {ALLOW, SUSPEND}


@pytest.mark.req("P4", "S2")
@pytest.mark.parametrize("name", TYPES)
def test_sub_agents_have_only_what_their_type_allows(name: str) -> None:
    """No sub-agent has Task; one that does not write has no tool that could, whatever the mode says."""
    kind = TYPES[name]
    names = {tool.name for tool in kind.tools}
    assert "Task" not in names
    writers = {"Write", "Edit", "MultiEdit", "NotebookEdit"}
    assert names & writers == (writers if kind.writes else set())
    assert ("exit_plan_mode" in names) is (name == "plan")


@pytest.mark.req("P4")
@every_row("case", CASES)
def test_no_rule_widens_plan_mode(case: str) -> None:
    """Whatever is allowed by rule, plan mode says what it says without rules."""
    name, _ = CASES[case]
    assert decide(case, Mode.PLAN, gate(allow=name)) is EXPECTED[case, Mode.PLAN]


@pytest.mark.req("P7")
@every_row("mode", MODES)
@every_row("case", CASES)
def test_a_deny_rule_wins_everywhere(case: str, mode: Mode) -> None:
    """Deny stands above ask, mode and allow."""
    name, _ = CASES[case]
    assert decide(case, mode, gate(deny=name, ask=name, allow=name)) is DENY


@pytest.mark.req("P7")
@every_row("mode", MODES[1:])
@every_row("case", CASES)
def test_an_ask_rule_stands_above_mode_and_allow(case: str, mode: Mode) -> None:
    """What the mode allows, or a rule, is asked all the same; what is denied, or waits for people, stays so."""
    name, _ = CASES[case]
    word = EXPECTED[case, mode]
    expected = word if word in {DENY, Decision.SUSPEND} else ASK
    assert decide(case, mode, gate(ask=name, allow=name)) is expected


@pytest.mark.req("P7")
@every_row("case", CASES)
def test_an_allow_rule_answers_what_would_be_asked(case: str) -> None:
    """In default mode an allow rule stands for the person; it never makes a denial a yes."""
    name, _ = CASES[case]
    was = EXPECTED[case, Mode.DEFAULT]
    assert decide(case, Mode.DEFAULT, gate(allow=name)) is (ALLOW if was is ASK else was)


@pytest.mark.req("P7")
def test_without_a_sandbox_commands_need_a_rule() -> None:
    """acceptEdits allows commands because the sandbox holds them: without one they are asked."""
    assert decide("Bash", Mode.ACCEPT_EDITS, gate(sandboxed=False)) is ASK
    assert decide("Bash", Mode.ACCEPT_EDITS, gate(sandboxed=False, allow="Bash(make:*)")) is ALLOW
    assert decide("Bash, read-only", Mode.ACCEPT_EDITS, gate(sandboxed=False)) is ALLOW
    assert decide("Edit", Mode.ACCEPT_EDITS, gate(sandboxed=False)) is ALLOW


_patterns = st.text("abg it:*/;&|.$(){}<>\n", max_size=12)
_rules = st.builds(Rule, st.sampled_from(["Bash", "Read"]), _patterns).map(lambda rule: (rule,)) | st.just(())


@pytest.mark.req("P2", "P4", "P7")
@given(st.builds(ToolRules, _rules, _rules, _rules), _patterns, st.sampled_from(list(CallKind)))
def test_no_rules_at_all_open_plan_mode(rules: ToolRules, command: str, kind: CallKind) -> None:
    """With whatever rules, plan mode allows what it allows without them, or less; a ruling always comes."""
    decision = PermissionGate(rules).decide(Mode.PLAN, kind, "Bash", {"command": command}).decision
    word = DECISIONS[Mode.PLAN][kind].decision
    assert decision in {word, DENY, *([ASK] if word is ALLOW else [])}


_calls = st.sampled_from([(asked(case).kind, *CASES[case]) for case in CASES])
_globs = st.sampled_from(
    ("*", "a.py", "**/*.py", "src/**", ".", "", "git:*", "make", "!a.py", "explore", "[", "{a,b}.py")
)
_any_rule = st.builds(Rule, st.sampled_from(sorted(TOOLS)), _globs)
_any_rules = st.builds(ToolRules, *(st.lists(_any_rule, max_size=3).map(tuple) for _ in range(3)))
_modes = st.sampled_from(list(Mode))
_WIDTH = {DENY: 0, ASK: 1, SUSPEND: 1, ALLOW: 2}


@pytest.mark.req("P7")
@given(_any_rules, _any_rule, _calls, _modes)
def test_one_more_deny_rule_never_widens(
    rules: ToolRules, more: Rule, call: tuple[CallKind, str, Json], mode: Mode
) -> None:
    """Denying more leaves a decision as it was, or makes it no; so does asking more, which never makes it yes."""
    kind, name, given_ = call
    before = PermissionGate(rules).decide(mode, kind, name, given_).decision
    denied = PermissionGate(replace(rules, deny=(*rules.deny, more))).decide(mode, kind, name, given_).decision
    asked_ = PermissionGate(replace(rules, ask=(*rules.ask, more))).decide(mode, kind, name, given_).decision
    assert denied in {before, DENY}
    assert _WIDTH[asked_] <= _WIDTH[before]


@pytest.mark.req("P4", "P7")
@given(_any_rules, _any_rule, _calls, _modes)
def test_one_more_allow_rule_overrides_nothing(
    rules: ToolRules, more: Rule, call: tuple[CallKind, str, Json], mode: Mode
) -> None:
    """It turns what the mode would ask into yes, and changes no denial, no ask rule and nothing of plan mode."""
    kind, name, given_ = call
    before = PermissionGate(rules).decide(mode, kind, name, given_).decision
    after = PermissionGate(replace(rules, allow=(*rules.allow, more))).decide(mode, kind, name, given_).decision
    unasked = PermissionGate(replace(rules, allow=(), ask=())).decide(mode, kind, name, given_).decision
    assert after is before or (mode is not Mode.PLAN and before is ASK and after is ALLOW and unasked is ASK)


@pytest.mark.req("P4", "P7")
def test_an_ask_rule_narrows_plan_mode_too() -> None:
    """What plan mode allows is asked where a rule says so; what it denies stays denied."""
    asking = gate(ask="Read(.env)|Bash(git log:*)|Write")
    assert asking.decide(Mode.PLAN, CallKind.READ, "Read", {"file_path": ".env"}).decision is ASK
    assert asking.decide(Mode.PLAN, CallKind.READ_COMMAND, "Bash", {"command": "git log"}).decision is ASK
    assert asking.decide(Mode.PLAN, CallKind.EDIT, "Write", {"file_path": "a"}).decision is DENY


@pytest.mark.req("P1")
def test_the_cycle_of_modes() -> None:
    """default, acceptEdits, plan, bypassPermissions where available, and round again."""
    assert [next_mode(mode, bypass_available=True) for mode in MODES] == [
        Mode.BYPASS,
        Mode.ACCEPT_EDITS,
        Mode.PLAN,
        Mode.DEFAULT,
    ]
    assert next_mode(Mode.PLAN, bypass_available=False) is Mode.DEFAULT
    assert next_mode(Mode.BYPASS, bypass_available=False) is Mode.DEFAULT

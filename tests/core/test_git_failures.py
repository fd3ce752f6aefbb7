"""What git's words mean: a moment's failure, a refusal, a rule of GitHub's."""

from bot.core.errors import is_passing, is_secret_found, is_token_refused, rule_violation
from tests.rows import every_row


@every_row(
    ("said", "passing"),
    (
        ("fatal: unable to access 'https://github.com/a/b.git/': The requested URL returned error: 502", True),
        ("error: RPC failed; HTTP 500 curl 22 The requested URL returned error: 500", True),
        ("fatal: the remote end hung up unexpectedly", True),
        ("fatal: unable to access 'https://x/': Could not resolve host: x", True),
        ("fatal: unable to access 'https://x/': The requested URL returned error: 403", False),
        ("fatal: repository 'https://x/' not found", False),
        ("fatal: couldn't find remote ref refs/heads/x", False),
        ("fatal: Authentication failed for 'https://x/'", False),
    ),
)
def test_passing(said: str, *, passing: bool) -> None:
    """Only what the server or the network may get over by itself is worth another try."""
    assert is_passing(said) is passing


def test_rule_violation() -> None:
    """GitHub's words are one bounded line of what prints; whoever says nothing of a rule gives none."""
    said = (
        "remote: error: GH013: Repository rule violations found for refs/heads/x.\n"
        "remote:\n"
        "remote: - GITHUB PUSH PROTECTION\n"
        "remote:   \u2014\u2014\u2014\u2014\u2014\u2014\u2014\n"
        "remote:     path: \x1b[31m\u202ea.py:3\n"
        f"remote: {'x' * 2000}\n"
        "To https://github.com/a/b.git\n"
        " ! [remote rejected] x -> x (push declined due to repository rule violations)\n"
    )
    words = rule_violation(said)
    assert words.startswith(
        "GH013: Repository rule violations found for refs/heads/x. - GITHUB PUSH PROTECTION path: [31ma.py:3 xxx"
    )
    assert (len(words), words.count("To https")) == (600, 0)
    assert is_secret_found(words)
    assert rule_violation("error: failed to push some refs") == ""
    assert not is_secret_found(rule_violation("GH013: Commits must have verified signatures."))


@every_row(
    ("output", "is_refused"),
    (
        ("fatal: could not read Username for 'https://github.com': terminal prompts disabled", True),
        ("fatal: Authentication failed for 'https://github.com/o/n.git/'", True),
        ("fatal: unable to access 'https://github.com/o/n.git/': The requested URL returned error: 403", False),
        ("", False),
    ),
)
def test_refused_token_is_recognized(output: str, *, is_refused: bool) -> None:
    assert is_token_refused(output) is is_refused

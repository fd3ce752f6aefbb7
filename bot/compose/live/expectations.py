"""What the bot expects of GitHub where only a live repository can prove it: one row for each expectation.

Nothing else in the tree states these expectations. `plangate doctor --live` compares GitHub with the rows, and
tests/compose/live compares the simulated GitHub with them.
"""

from dataclasses import dataclass
from typing import Final

REFS: Final = "branch refused, ref pushed, fetched, late push refused"
WORDS: Final = "comment minimized, reply made"
SWITCHED: Final = "disabled_manually, then active"
_DOCS: Final = "https://docs.github.com/en"
_BRANCHES: Final = f"{_DOCS}/repositories/configuring-branches-and-merges-in-your-repository"
_RULES: Final = f"{_BRANCHES}/managing-rulesets/about-rulesets#branch-and-tag-rulesets"
_WORDING: Final = (
    f"{_DOCS}/graphql/reference/mutations#minimizecomment",
    f"{_DOCS}/rest/pulls/comments#create-a-reply-for-a-review-comment",
)
_SWITCHING: Final = (f"{_DOCS}/rest/actions/workflows#disable-a-workflow",)
_DEPLOYING: Final = (
    f"{_DOCS}/actions/how-tos/deploy/configure-and-manage-deployments/control-deployments"
    "#using-environments-without-deployments"
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row: a question, the answers that the bot is built for, what follows from others, and GitHub's own pages."""

    key: str
    experiment: int
    question: str
    expected: tuple[str, ...]
    consequence: str
    sources: tuple[str, ...]
    """The addresses of what GitHub publishes about it, as far as that goes."""


EXPECTATIONS: Final = (
    Expectation(
        "refs",
        1,
        "this token pushes and fetches refs/plangate while a ruleset protects every branch",
        (REFS,),
        "the bot cannot keep its state: let it bypass the ruleset. A late push that is accepted breaks the lock",
        (_RULES,),
    ),
    Expectation(
        "refs of a job",
        1,
        "the token of a job does the same",
        (REFS,),
        "the Action cannot keep its state: give it a token of its own, or let Actions bypass the ruleset",
        (_RULES,),
    ),
    Expectation(
        "tick",
        2,
        "who edited a comment after somebody else ticked its box, and what the edits hold",
        ("edited by the person, newest edit first, with the whole text",),
        "a ticked box cannot be told from other edits: approve by a comment or by a reaction",
        (
            f"{_DOCS}/graphql/reference/objects#usercontentedit",
            f"{_DOCS}/communities/moderating-comments-and-conversations/tracking-changes-in-a-comment",
        ),
    ),
    Expectation(
        "identity",
        3,
        "who the token of a job is",
        ("41898282 github-actions[bot] Bot",),
        "the bot does not know its own comments in the Action: report the id (bot/service/connections.py, JOB_ID)",
        ("https://github.com/actions/checkout#push-a-commit-using-the-built-in-token",),
    ),
    Expectation(
        "words",
        4,
        "this token hides a comment, and replies in a review",
        (WORDS,),
        "superseded plans stay visible, or questions in reviews stay without a reply",
        _WORDING,
    ),
    Expectation(
        "words of a job",
        4,
        "the token of a job does the same",
        (WORDS,),
        "superseded plans stay visible in the Action, or questions in reviews stay without a reply",
        _WORDING,
    ),
    Expectation(
        "schedule",
        5,
        "the sender in the payload of a scheduled run",
        ("none", "User"),
        "conditions on the sender must not reach schedules; the shipped ones do not",
        (f"{_DOCS}/actions/reference/workflows-and-actions/events-that-trigger-workflows#schedule",),
    ),
    Expectation(
        "review",
        6,
        "how many runs a review with three comments starts",
        ("1",),
        "a review costs as many jobs as runs: docs/api-cost.md counts one",
        (f"{_DOCS}/webhooks/webhook-events-and-payloads#pull_request_review",),
    ),
    Expectation(
        "switch",
        7,
        "this token disables and enables a workflow",
        (SWITCHED,),
        "the scheduled check cannot be switched: it stays as it is, and costs minutes while nothing waits",
        _SWITCHING,
    ),
    Expectation(
        "switch of a job",
        7,
        "the token of a job does the same",
        (SWITCHED,),
        "the scheduled check cannot be switched by the Action: it stays as it is",
        _SWITCHING,
    ),
    Expectation(
        "secret",
        8,
        "a job reads the secret of an environment without making a deployment",
        ("read, 0 deployments",),
        "run plangate init --secret repository where it is not read; each job makes a deployment where it is not 0",
        (_DEPLOYING,),
    ),
    Expectation(
        "pushes",
        9,
        "twenty pushes to refs/plangate within a minute",
        ("20 of 20 accepted",),
        "GitHub slows pushes down: save work less often",
        (f"{_DOCS}/repositories/creating-and-managing-repositories/repository-limits#activity",),
    ),
)

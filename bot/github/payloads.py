"""The parts of GitHub's webhook payloads that say which thread to check; everything else is ignored.

https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Id = Annotated[int, Field(gt=0, lt=2**63)]
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+$")]
# An App's bot is called `name[bot]`.
_Login = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.-]+(\[bot\])?$")]


class _Part(BaseModel):
    """A part of a payload. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class Account(_Part):
    """A user, a bot or an organization."""

    id: _Id
    login: _Login


class RepositoryPart(_Part):
    """The repository that the event is about."""

    id: _Id
    name: _Name
    owner: Account


class Identified(_Part):
    """Something that has an id."""

    id: _Id


class LabelPart(_Part):
    """A label of an issue or a pull request."""

    name: str = ""


class Subject(_Part):
    """An issue or a pull request. Its author may be gone."""

    number: _Id
    title: str | None = None
    body: str | None = None
    user: Identified | None = None
    labels: list[LabelPart | None] | None = None
    assignees: list[Identified | None] | None = None
    merged: bool | None = None


class Written(_Part):
    """A comment or a review."""

    id: _Id
    body: str | None = None
    user: Identified | None = None
    state: str | None = None

    @property
    def says_something(self) -> bool:
        """Whether a review has a text or comments. Only one that approves or requests changes may have neither."""
        return bool(self.body) or self.state == "commented"


class Branch(_Part):
    """The head of a pull request."""

    ref: str = ""


class CheckedPull(_Part):
    """A pull request whose head was checked."""

    number: _Id
    head: Branch = Branch()


class Checked(_Part):
    """A check run, a check suite or a workflow run, with the pull requests of its head (none for forks)."""

    pull_requests: Annotated[list[CheckedPull | None], Field(max_length=1000)] = []


class Payload(_Part):
    """What every event may carry."""

    action: Annotated[str, Field(max_length=100)] = ""
    installation: Identified | None = None
    repository: RepositoryPart | None = None
    sender: Account | None = None
    issue: Subject | None = None
    pull_request: Subject | None = None
    comment: Written | None = None
    review: Written | None = None
    check_run: Checked | None = None
    check_suite: Checked | None = None
    workflow_run: Checked | None = None

"""The Statement in a receipt, as pydantic models: a verifier accepts exactly what they accept (RC3).

docs/receipts/plan-approval-v1.schema.json says the same as JSON schema, for other people's verifiers; tests hold that
both agree. docs/receipts.md describes every field.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bot.core.transcript import Json

# Languages that read numbers as floats know larger ones only roughly: https://www.rfc-editor.org/rfc/rfc8259#section-6
_Integer: TypeAlias = Annotated[int, Field(ge=1 - 2**53, le=2**53 - 1)]
_Cost: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]{6}$")]
_Git: TypeAlias = Annotated[str, Field(pattern="^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
_GitOrNone: TypeAlias = Annotated[str, Field(pattern="^(?:|[0-9a-f]{40}|[0-9a-f]{64})$")]
_Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Sha256OrNone: TypeAlias = Annotated[str, Field(pattern="^(?:|[0-9a-f]{64})$")]
_Time: TypeAlias = Annotated[
    str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{6})?\+00:00$")
]
_MOST = Field(max_length=100_000)


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _CountedOpinion(_Record):
    actor_id: _Integer
    login: str
    role: str
    listed: bool
    way: str
    at: _Time


class _Decision(_Record):
    plan: _Sha256OrNone
    observed_at: _Time
    snapshot_sha256: _Sha256OrNone
    by: Annotated[list[_CountedOpinion], _MOST]


class _Policy(_Record):
    configuration: _GitOrNone
    required_role: str
    needed: _Integer
    fewer: str
    four_eyes: bool
    requesters: Annotated[list[_Integer], _MOST]
    approver_is_not_requester: bool


class _Agent(_Record):
    type: str
    state: str
    tool_calls: _Integer
    cost_usd: _Cost | None


class _Command(_Record):
    agent: str
    command: str
    exit_code: _Integer | None
    output_sha256: _Sha256 = ""
    """Absent where the journal is of a version that did not keep it."""


class _Check(_Record):
    command: str
    exit_code: _Integer | None
    exit_code_before: _Integer | None
    output_sha256: _Sha256


class _RequestMade(_Record):
    actor_id: _Integer
    login: str
    turn: str
    at: _Time
    text_sha256: _Sha256
    editors: Annotated[list[_Integer], _MOST]


class _Repository(_Record):
    host: str
    id: _Integer
    name: str


class _Plan(_Record):
    digest: _Sha256
    version: _Integer
    base: _Git
    tier: str
    expires: _Time
    scope_tree: _GitOrNone


class _Execution(_Record):
    session: str
    model: str
    agents: Annotated[list[_Agent], _MOST]
    commands: Annotated[list[_Command], _MOST]
    cost_usd: _Cost | None
    tokens_input: _Integer
    tokens_output: _Integer
    hosts: Annotated[list[str], _MOST]


class _Scope(_Record):
    planned: Annotated[list[str], _MOST]
    changed: Annotated[list[str], _MOST]
    amendments: _Integer


class _Verification(_Record):
    tree: _GitOrNone
    baseline: str
    checks: Annotated[list[_Check], _MOST]


class _JournalPosition(_Record):
    position: _Integer
    hash: _Sha256
    at: _Time


class _Builder(_Record):
    version: str
    run: str


class _Predicate(_Record):
    attester: str
    repository: _Repository
    thread: _Integer
    branch: str
    plan: _Plan
    requests: Annotated[list[_RequestMade], _MOST]
    approvals: Annotated[list[_Decision], _MOST]
    rejections: Annotated[list[_Decision], _MOST]
    policy: _Policy | None
    execution: _Execution
    scope: _Scope
    verification: _Verification
    journal: _JournalPosition
    builder: _Builder
    complete: bool
    missing: Annotated[list[str], _MOST]


class _SubjectDigest(_Record):
    git_commit: _Git = Field("", alias="gitCommit")
    git_tree: _Git = Field("", alias="gitTree")

    @model_validator(mode="after")
    def _names_an_object(self) -> "_SubjectDigest":
        if not self.model_fields_set:
            raise ValueError("it is empty")
        return self


class _Subject(_Record):
    name: str
    digest: _SubjectDigest


class _Statement(_Record):
    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[_Subject], Field(min_length=2, max_length=2)]
    predicate_type: Literal["https://plangate.dev/plan-approval/v1"] = Field(alias="predicateType")
    predicate: _Predicate


def statement_objections(statement: Json) -> Iterator[str]:
    """Yield what is wrong with the form of a statement, one sentence each; nothing if it is right."""
    try:
        _Statement.model_validate(statement)
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False, include_context=False, include_input=False):
            *place, last = ("statement", *map(str, error["loc"]))
            match error["type"]:
                case "missing":
                    yield f"{'.'.join(place)} lacks {last}"
                case "extra_forbidden":
                    yield f"{'.'.join(place)} has an unknown key {last}"
                case _:
                    yield f"{'.'.join([*place, last])}: {error['msg']}"

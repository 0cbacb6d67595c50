"""Request bodies and small answers. Larger answers are in `evo.messages.view`, jobs in `evo.messages.job`."""

import re
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_type_hints

from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    GetCoreSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError

from api.http.errors import MOST_NAMED
from api.http.strict_json import refuse_unstorable, strict
from evo.device import Device
from evo.device.requirements import Requirements
from evo.errors import InvalidInput
from evo.messages.job import Answer, Lease, SlotReport
from evo.search.search import Budget
from evo.strategy import DEFAULT, STRATEGIES
from evo.text.limits import LARGEST, LARGEST_ID, refuse_invisible, refuse_unaddressable
from evo.trial import Value
from evo.trial.objective import Objective
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report

DIGEST_LENGTH = 64
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
"""A reason with at least one visible character."""


def _on_one_line(text: str) -> str:
    try:
        return refuse_invisible("", text)
    except InvalidInput as error:
        raise PydanticCustomError("invisible", "{reason}", {"reason": error.reason}) from None


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_on_one_line)]
WorkerId = Annotated[Name, AfterValidator(partial(refuse_unaddressable, "worker_id"))]
DeviceId = Annotated[Name, AfterValidator(partial(refuse_unaddressable, "device_uuid"))]
MAX_NAMES, MAX_PROBLEM, MAX_DEVICES = 200, 10_000, 256
"""Limits: names in one object, characters of a problem, devices of one worker."""
GivenConfig: TypeAlias = Annotated[dict[Name, Value], Field(max_length=MAX_NAMES)]
MAX_INTEGER = LARGEST


def _digits(value: object) -> object:
    """Accept an id in one spelling only: 1.0, +1 and 01 are refused."""
    if isinstance(value, str) and not re.fullmatch("0|[1-9][0-9]*", value):
        raise PydanticKnownError("int_parsing")
    return value


Id = Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(_digits)]
AnyId = int
"""An id in a list of a request. An id out of range counts as unknown and does not refuse the others."""
TrialState: TypeAlias = Literal[
    "pending",
    "measured",
    "estimated",
    "pruned",
    "invalid_config",
    "compile_failed",
    "over_resources",
    "wrong_answer",
    "launch_failed",
    "reference_failed",
    "timed_out",
    "crashed",
    "impossible",
    "invalid_measurement",
    "abandoned",
    "cancelled",
]
"""A kind of `evo.trial.outcome.Outcome`, or pending."""
Priority = Annotated[int, Field(strict=True, ge=-1000, le=1000)]
MAX_NOTES = 20_000
MOST_TRIALS = 1_000_000
"""Limit of the trials of one variant."""
MAX_RESULTS, MAX_CONTENTS = 256, 1024
"""Limit of one request."""


def _only_known(kind: type) -> BeforeValidator:
    """Refuse fields that a dataclass does not have; pydantic would ignore them."""
    known = get_type_hints(kind, include_extras=True)

    def check(value: Any) -> Any:
        if isinstance(value, dict):
            for name in value:
                if name not in known:
                    raise InvalidInput(name, f"no such field; known: {', '.join(known)}")
        return value

    return BeforeValidator(check)


class Body(BaseModel):
    """Base of request bodies. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return strict(handler(source), handler)

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + MOST_NAMED:
            unknown = next(name for name in given if name not in cls.model_fields)
            raise InvalidInput(unknown, f"no such field, among {len(given):,}; known: {', '.join(cls.model_fields)}")
        refuse_unstorable(given)
        return given


class FamilyBody(Body):
    """`location`: an absolute path on the workers; omitted for families that come with kernel-evo."""

    name: Name
    document: dict[str, Any]
    location: str | None = Field(default=None, min_length=1, max_length=4096)


Incarnation: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
"""A random text that a worker process chooses at its start and sends with each of its requests."""


class WorkerBody(Body):
    """`name` is shown to people; by default the name of the worker's token, or else its host.

    `incarnation` names the process: requests of earlier processes are refused (409) from then on.
    """

    name: Name | None = None
    host: Name
    devices: Annotated[tuple[Device, ...], FailFast()] = Field(max_length=MAX_DEVICES)
    incarnation: Incarnation | None = None


class WarmStart(Body):
    """Configs that did well elsewhere, the best one first. Configs outside the space are skipped and counted.

    `source` says where they were recorded. A tunable that was not recorded gets its default.
    """

    source: Name
    configs: Annotated[list[GivenConfig], FailFast()] = Field(min_length=1, max_length=10_000)


class Webhook(Body):
    """Receiver of a message when the search ends. Messages are signed with `secret`, or with the service's own."""

    url: str = Field(min_length=1, max_length=2000)
    secret: str | None = Field(default=None, min_length=16, max_length=200)


class SearchRequest(Body):
    """Terms of a new search: `device` is ``auto``, a kind or a model; `policy` a name, or fields that override one.

    Exactly one of `family` (a name, whose latest version is used) and `family_digest` names the family.
    """

    family: Name | None = None
    family_digest: Digest | None = None
    problem: GivenConfig | Annotated[str, Field(max_length=MAX_PROBLEM)] = ""
    device: Name = "auto"
    device_uuid: str | None = None
    objective: Annotated[Objective, _only_known(Objective)] = Objective()
    strategy: Annotated[Name, Field(examples=list(STRATEGIES))] = DEFAULT
    seed: int = Field(default=0, ge=0, le=MAX_INTEGER)
    budget: Annotated[Budget, _only_known(Budget)] = Budget()
    policy: Annotated[dict[str, Any], Field(max_length=MAX_NAMES)] | Name = "default"
    priority: Priority = 0
    notes: str = Field(default="", max_length=MAX_NOTES)
    from_default: bool = False
    warm_start: WarmStart | None = None
    webhook: Webhook | None = None
    requirements: Annotated[Requirements, _only_known(Requirements)] = Requirements()

    @model_validator(mode="after")
    def _one_family(self) -> "SearchRequest":
        if self.family is None and self.family_digest is None:
            raise InvalidInput(
                "family_digest", 'is missing: give it, or the family by its name, e.g. {"family": "sdpa"}'
            )
        if self.family is not None and self.family_digest is not None:
            raise InvalidInput("family", "is given together with `family_digest`: keep one of them")
        return self

    @property
    def wanted_family(self) -> str:
        """The family's name or digest."""
        return self.family or self.family_digest or ""


class VariantBody(Body):
    """A variant of a search: its files as text, and what differs from its parent.

    `document` may give `name`, `author`, `idea`, and keys of the ``[cpu]`` or ``[cuda]`` table of a family: `template`
    or `source`, `entry`, `tunables`, `constraints`, `launch`, … Keys that it omits are those of the first parent.
    `parents` are numbers of variants, 0 the family's own implementation. `trials` limits the trials it may get.
    `proposal` is the number of the proposal that it came from.
    """

    document: dict[str, Any] = Field(default_factory=dict, max_length=MAX_NAMES)
    files: dict[Name, str] = Field(min_length=1, max_length=MAX_NAMES)
    parents: Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST_ID)], ...], Field(max_length=8)] = (0,)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    proposal: Id | None = None


class SearchPatch(Body):
    """Changes of a search. Omitted fields stay as they are."""

    notes: Annotated[str, Field(max_length=MAX_NOTES)] | None = None
    priority: Priority | None = None
    archived: bool | None = None


class LeaseRequest(Body):
    """A slot's request for work.

    `holding` lists the attempts the worker holds: an attempt granted in a lost answer is returned again.
    `unable` lists searches it cannot work for, e.g. because its copy of the family differs.
    """

    worker_id: str
    device_uuid: str
    count: int = Field(default=1, ge=1, le=64)
    wait_s: float = Field(default=0.0, ge=0, le=30)
    holding: list[AnyId] | None = Field(default=None, max_length=1000)
    unable: list[AnyId] = Field(default_factory=list, max_length=1000)
    incarnation: Incarnation | None = None


class LeaseReply(BaseModel):
    """`waited_s`: seconds that the request waited for work."""

    leases: list[Lease]
    drain: bool
    waited_s: float = 0.0


class Heartbeat(Body):
    """A heartbeat: attempts to renew, the activity of each slot, and problems of the worker (`note`)."""

    attempts: list[AnyId] = Field(default_factory=list, max_length=1000)
    slots: list[SlotReport] = Field(default_factory=list, max_length=1000)
    note: str | None = Field(default=None, max_length=2000)
    incarnation: Incarnation | None = None


class Reason(Body):
    reason: Why


def _with_digest(report: Report) -> Any:
    """Refuse a `binary_digest` of the wrong length, which would not fit the database."""
    digest = report.binary_digest if isinstance(report, EvaluateReport) else None
    if digest is not None and len(digest) > DIGEST_LENGTH:
        raise InvalidInput("binary_digest", f"has {len(digest)} characters; a digest has {DIGEST_LENGTH}")
    return report


class Result(Body):
    token: str
    report: Annotated[
        EvaluateReport | BaselineReport | ConfirmReport | AblateReport,
        Field(discriminator="kind"),
        AfterValidator(_with_digest),
    ]


class AttemptResult(Result):
    attempt_id: AnyId


class Results(Body):
    """`contents`: artefacts that the reports refer to, by digest, which saves separate requests."""

    results: list[AttemptResult] = Field(min_length=1, max_length=MAX_RESULTS)
    contents: dict[Digest, Base64Bytes] = Field(default_factory=dict, max_length=MAX_CONTENTS)


class ResultsReply(BaseModel):
    """One answer for each result, in their order."""

    answers: list[Answer]


class Release(Body):
    token: str
    reason: str = Field(default="", max_length=2000)
    unfit: bool = Field(
        default=False, description="The worker cannot do any work of this search; the search shows the reason."
    )


class Receipt(BaseModel):
    """A report was accepted. `repeated`: it had been accepted before, and nothing changed."""

    accepted: bool = True
    repeated: bool = False


class Restore(Body):
    """Makes an earlier champion current: the reason, and the id of the champion it replaces, if any."""

    reason: Why
    over: Id | None


class Rollback(Body):
    reason: Why


class Called(Body):
    """Times of a champion in an exported package, in µs, and of PyTorch's own function."""

    called_us: float = Field(gt=0, allow_inf_nan=False)
    torch_us: float = Field(gt=0, allow_inf_nan=False)
    model: str = Field(min_length=1, max_length=200, description="the device that ran both")
    software: str = Field(min_length=1, max_length=200, description="PyTorch and its version")


class ArtefactView(BaseModel):
    digest: str
    size: int
    media_type: str


class Health(BaseModel):
    status: str
    version: str

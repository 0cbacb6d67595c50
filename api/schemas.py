"""Request bodies and small responses. Larger responses are in `evo.messages.view`, jobs in `evo.messages.job`."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

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
from api.http.objects import (
    GivenBudget,
    GivenObjective,
    GivenRequirements,
    OneValue,
    no_object,
    policy_terms,
    problem_terms,
)
from api.http.strict_json import Checked, refuse_unstorable, strict
from evo.device import Device
from evo.device.requirements import Requirements
from evo.errors import InvalidInput
from evo.messages.job import Answer, Lease, SlotReport
from evo.search.search import Budget
from evo.strategy import DEFAULT, STRATEGIES
from evo.text.limits import LARGEST, LARGEST_ID, refuse_invisible, refuse_unaddressable
from evo.trial.objective import Objective
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report

DIGEST_LENGTH = 64
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
"""Reason for an action. It must contain at least one character that is not white space."""


def _on_one_line(text: str) -> str:
    try:
        return refuse_invisible("", text)
    except InvalidInput as error:
        raise PydanticCustomError("invisible", "{reason}", {"reason": error.reason}) from None


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_on_one_line)]
WorkerId = Annotated[Name, AfterValidator(partial(refuse_unaddressable, "worker_id"))]
DeviceId = Annotated[Name, AfterValidator(partial(refuse_unaddressable, "device_uuid"))]
MAX_NAMES, MAX_PROBLEM, MAX_DEVICES = 200, 10_000, 256
"""Maximum numbers of names per object, of characters of a problem in text form, and of devices per worker."""


GivenConfig: TypeAlias = Annotated[dict[Name, OneValue], Field(max_length=MAX_NAMES)]
MAX_INTEGER = LARGEST


def _digits(value: object) -> object:
    """Accept only the canonical spelling of an id. 1.0, +1 and 01 are refused."""
    if isinstance(value, str) and not re.fullmatch("0|[1-9][0-9]*", value):
        raise PydanticKnownError("int_parsing")
    return value


Id = Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(_digits)]
AnyId = int
"""Id in a list in a request. An id out of range is treated as unknown, so that the other ids are accepted."""
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
"""Maximum number of trials of one variant."""
MAX_RESULTS, MAX_CONTENTS = 256, 1024
"""Maximum number of results and of artefact contents in one request."""


class Body(BaseModel):
    """Base class of request bodies. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    EXAMPLE: ClassVar[Mapping[str, object]] = {}
    """Example of a valid object. Errors about values that are not objects show it. Empty if there is no example."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return strict(handler(source), handler)

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + MOST_NAMED:
            unknown = next(name for name in given if name not in cls.model_fields)
            raise InvalidInput(
                unknown,
                f"is not a known field ({len(given):,} fields were sent); known: {', '.join(cls.model_fields)}",
            )
        if not isinstance(given, Checked):
            refuse_unstorable(given)
        if cls.EXAMPLE and not isinstance(given, dict | cls):
            raise no_object(given, cls._meant(given), cls.EXAMPLE)
        return given

    @classmethod
    def _meant(cls, given: object) -> object:
        """Return the object that the client probably meant by a value that is not an object; None if there is none."""
        return None


class FamilyBody(Body):
    """A family to register. `location` is an absolute path on the workers. Omit `location` for built-in families."""

    name: Name
    document: dict[str, Any]
    location: str | None = Field(default=None, min_length=1, max_length=4096)


Incarnation: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
"""Random id that a worker process generates when it starts and sends with every request."""


class WorkerBody(Body):
    """A worker to register.

    `name` is shown to people. By default, it is the name of the token in the request if `worker` is the token's only
    role, else `host`. `incarnation` is the id of the worker's process. After the registration, requests of earlier
    processes of the worker are refused (409).
    """

    name: Name | None = None
    host: Name
    devices: Annotated[tuple[Device, ...], FailFast()] = Field(max_length=MAX_DEVICES)
    incarnation: Incarnation | None = None


class WarmStart(Body):
    """Configs that were fast in other measurements, best first.

    `source` describes the measurements. Missing tunables get their default values. At most 20 configs are used. Configs
    outside the space are not used. The search reports the numbers of used and unused configs.
    """

    EXAMPLE = {"source": "notes", "configs": [{"BLOCK": 64}]}

    source: Name
    configs: Annotated[list[GivenConfig], FailFast()] = Field(min_length=1, max_length=10_000)

    @classmethod
    def _meant(cls, given: object) -> object:
        configs = isinstance(given, list) and given and all(isinstance(each, dict) for each in given)
        return {"source": "notes", "configs": given} if configs and len(str(given)) < MAX_NAMES else None


class Webhook(Body):
    """URL that receives a message when the search ends.

    `secret` signs the message. The default is the service's secret.
    """

    EXAMPLE = {"url": "https://example.org/hook"}

    url: str = Field(min_length=1, max_length=2000)
    secret: str | None = Field(default=None, min_length=16, max_length=200)

    @classmethod
    def _meant(cls, given: object) -> object:
        return {"url": given} if isinstance(given, str) and re.match("https?://", given) else None


class SearchRequest(Body):
    """Settings of a new search.

    `device` is ``auto``, a device kind or a device model. `device_uuid` restricts the search to one device. `policy` is
    the name of a policy, or an object with fields that override those of the policy `base` (``default`` if `base` is
    omitted). Either `family` or `family_digest` selects the family. `family` is a name, and selects the latest version.
    If `from_default` is true, the search starts with the default config instead of champions, the family's start
    configs and predicted configs.
    """

    EXAMPLE = {"family": "sdpa"}

    family: Name | None = None
    family_digest: Digest | None = None
    problem: Annotated[GivenConfig | Annotated[str, Field(max_length=MAX_PROBLEM)], BeforeValidator(problem_terms)] = ""
    device: Name = "auto"
    device_uuid: str | None = None
    objective: GivenObjective = Objective()
    strategy: Annotated[Name, Field(examples=list(STRATEGIES))] = DEFAULT
    seed: int = Field(default=0, ge=0, le=MAX_INTEGER)
    budget: GivenBudget = Budget()
    policy: Annotated[Annotated[dict[str, Any], Field(max_length=MAX_NAMES)] | Name, BeforeValidator(policy_terms)] = (
        "default"
    )
    priority: Priority = 0
    notes: str = Field(default="", max_length=MAX_NOTES)
    from_default: bool = False
    warm_start: WarmStart | None = None
    webhook: Webhook | None = None
    requirements: GivenRequirements = Requirements()

    @model_validator(mode="after")
    def _one_family(self) -> "SearchRequest":
        if self.family is None and self.family_digest is None:
            raise InvalidInput(
                "family_digest", 'is missing; send it, or the name of the family, e.g. {"family": "sdpa"}'
            )
        if self.family is not None and self.family_digest is not None:
            raise InvalidInput("family", "cannot be combined with `family_digest`; send only one")
        return self

    @property
    def wanted_family(self) -> str:
        """The given name or digest of the family."""
        return self.family or self.family_digest or ""


class VariantBody(Body):
    """A variant of a search: its files as text, and the keys of family.toml that differ from its parent.

    `document` may contain `name`, `author`, `idea`, and keys of the table ``[cpu]``, ``[cuda]`` or ``[triton]`` of a
    family: `template` or `source`, `entry`, `tunables`, `constraints`, `launch` and others. Missing keys are taken from
    the first parent. `parents` are numbers of variants. Number 0 is the family's own implementation. `trials` is the
    maximum number of trials of the variant. If it is null, the limit on trials in the budget of the search applies.
    `proposal` is the number of the proposal from which the variant was made, or null.
    """

    document: dict[str, Any] = Field(default_factory=dict, max_length=MAX_NAMES)
    files: dict[Name, str] = Field(min_length=1, max_length=MAX_NAMES)
    parents: Annotated[tuple[Annotated[int, Field(ge=0, le=LARGEST_ID)], ...], Field(max_length=8)] = (0,)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    proposal: Id | None = None


class SearchPatch(Body):
    """Changes to a search. Omitted fields do not change."""

    notes: Annotated[str, Field(max_length=MAX_NOTES)] | None = None
    priority: Priority | None = None
    archived: bool | None = None


class LeaseRequest(Body):
    """Request for jobs for one slot of a worker.

    `holding` lists the attempts that the worker holds. Leases of this slot that are missing from the list did not reach
    the worker, and are sent again. Without the list, no lease is sent again. `unable` lists searches whose jobs the
    worker cannot execute, for example because its copy of the family differs. `incarnation` is the id of the worker's
    process.
    """

    worker_id: str
    device_uuid: str
    count: int = Field(default=1, ge=1, le=64)
    wait_s: float = Field(default=0.0, ge=0, le=30)
    holding: list[AnyId] | None = Field(default=None, max_length=1000)
    unable: list[AnyId] = Field(default_factory=list, max_length=1000)
    incarnation: Incarnation | None = None


class LeaseReply(BaseModel):
    """Leases for a slot. `waited_s` is the time in seconds that the request waited for work.

    If `drain` is True, the worker gets no more jobs.
    """

    leases: list[Lease]
    drain: bool
    waited_s: float = 0.0


class Heartbeat(Body):
    """Heartbeat of a worker. It renews the leases of `attempts`, and reports slot activities and problems (`note`).

    `incarnation` is the id of the worker's process.
    """

    attempts: list[AnyId] = Field(default_factory=list, max_length=1000)
    slots: list[SlotReport] = Field(default_factory=list, max_length=1000)
    note: str | None = Field(default=None, max_length=2000)
    incarnation: Incarnation | None = None


class Reason(Body):
    reason: Why


def _with_digest(report: Report) -> Any:
    """Return the report. A `binary_digest` that is too long is refused."""
    digest = report.binary_digest if isinstance(report, EvaluateReport) else None
    if digest is not None and len(digest) > DIGEST_LENGTH:
        raise InvalidInput("binary_digest", f"must have at most {DIGEST_LENGTH} characters, but has {len(digest)}")
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
    """Several results. `contents` contains artefacts of the reports by digest, so they need no separate upload."""

    results: list[AttemptResult] = Field(min_length=1, max_length=MAX_RESULTS)
    contents: dict[Digest, Base64Bytes] = Field(default_factory=dict, max_length=MAX_CONTENTS)


class ResultsReply(BaseModel):
    """Responses to results, in the order of the results."""

    answers: list[Answer]


class Release(Body):
    token: str
    reason: str = Field(default="", max_length=2000)
    unfit: bool = Field(
        default=False,
        description="True if the worker cannot execute any job of this search. The search then shows the reason.",
    )


class Receipt(BaseModel):
    """Response to an accepted report. `repeated` is True if the report had been accepted before."""

    accepted: bool = True
    repeated: bool = False


class Restore(Body):
    """Request to make a former champion current, with a reason.

    `over` is the id of the current champion, or null if there is none.
    """

    reason: Why
    over: Id | None


class Rollback(Body):
    reason: Why


class Called(Body):
    """Times of one call from PyTorch in µs.

    `called_us` is the time of a call to a champion's exported kernel, `torch_us` of a call to PyTorch's own function.
    """

    called_us: float = Field(gt=0, allow_inf_nan=False)
    torch_us: float = Field(gt=0, allow_inf_nan=False)
    model: str = Field(
        min_length=1, max_length=200, description="model of the device that ran the kernel and PyTorch's function"
    )
    software: str = Field(min_length=1, max_length=200, description="name and version of PyTorch")


class ArtefactView(BaseModel):
    digest: str
    size: int
    media_type: str


class Health(BaseModel):
    status: str
    version: str
    refusal: str | None = None

"""How the jobs ended, as the worker says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from evo.results.confirmation import ConfirmReport
from evo.results.stages import Stages
from evo.trial.outcome import Outcome
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class EvaluateReport:
    """How a trial ended.

    Attributes:
        binary_digest: of the compiled artefact; equal binaries are measured once.
        uncovered: cases the config has no kernel for, with the reason.
        artefacts: name (``source``, ``compiler.log``, ``binary``, ``headers``) → digest in the artefact store.
        environment: clocks, temperature, versions at the time of measuring.
    """

    outcome: Outcome
    stages: Stages = field(default_factory=Stages)
    binary_digest: str | None = None
    uncovered: Mapping[str, str] = field(default_factory=dict)
    artefacts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, kw_only=True)
class BaselineReport:
    """Times by baseline name.

    Attributes:
        unavailable: baselines that could not run, with the reason.
        warnings: sentences about the family that the search goes on in spite of, e.g. a tunable without effect.
        failure: why none was timed; None if the process that times them ended well.
    """

    timings: Mapping[str, Timing]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    failure: Outcome | None = None
    stages: Stages = field(default_factory=Stages)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["baseline"] = "baseline"


@dataclass(frozen=True, kw_only=True)
class Ablated:
    """One changed config beside its champion: entry i of every timing was taken in round i.

    Attributes:
        champion_again: a second series of the champion in the same rounds.
        failure: why the changed config has no times.
        same_binary: it compiles to the very binary of the champion, so there was nothing to time.
    """

    champion: Timing | None = None
    champion_again: Timing | None = None
    changed: Timing | None = None
    failure: Outcome | None = None
    same_binary: bool = False


@dataclass(frozen=True, kw_only=True)
class AblateReport:
    """What became of each changed config, in the order of the job.

    Attributes:
        failure: why the champion itself could not be measured; `changes` is empty then.
    """

    changes: tuple[Ablated, ...] = ()
    failure: Outcome | None = None
    stages: Stages = field(default_factory=Stages)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["ablate"] = "ablate"


Report: TypeAlias = EvaluateReport | BaselineReport | ConfirmReport | AblateReport

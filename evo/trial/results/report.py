"""Reports that workers send about evaluations, baselines and ablations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from evo.trial.outcome import Outcome
from evo.trial.results.confirmation import ConfirmReport, Stages
from evo.trial.timing import Timing


@dataclass(frozen=True, kw_only=True)
class EvaluateReport:
    """Report on the evaluation of a trial.

    Attributes:
        binary_digest: digest of the compiled binaries and launches; None if the build failed. Configs with equal
            digests are measured once.
        uncovered: reasons why the config cannot run a case, by case name.
        artefacts: digests in the artefact store by name (``source``, ``compiler.log``, ``binary``, ``ptx``,
            ``headers``). The last three are stored only if the trial is among the best of its search so far.
        environment: facts about the machine during the measurement, e.g. clocks and software versions, by name.
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
    """Report on a job that times the baselines.

    Attributes:
        timings: times by the baseline's name.
        unavailable: reasons why a baseline could not run, by the baseline's name. The key ``all`` stands for all
            baselines.
        warnings: problems of the family that do not stop the search, e.g. a tunable without effect.
        failure: failure of the process that times the baselines; `timings` is then empty. None if the process ended
            normally.
        environment: facts about the machine during the measurement, e.g. clocks and software versions, by name.
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
    """One changed config, timed alongside its champion. Entry i of every timing was taken in round i.

    Attributes:
        champion, changed: times of the two configs; None if the changed config was not timed.
        champion_again: a second series of the champion in the same rounds; None without times.
        failure: reason why the changed config could not be timed; None if it did not fail.
        same_binary: True if the changed config compiles to the champion's binary and was therefore not timed.
    """

    champion: Timing | None = None
    champion_again: Timing | None = None
    changed: Timing | None = None
    failure: Outcome | None = None
    same_binary: bool = False


@dataclass(frozen=True, kw_only=True)
class AblateReport:
    """Report on an ablation.

    Attributes:
        changes: results of the changed configs, in the order of the job.
        failure: reason why the champion itself could not be measured; `changes` is then empty. None if it was measured.
        environment: facts about the machine during the measurement, e.g. clocks and software versions, by name.
    """

    changes: tuple[Ablated, ...] = ()
    failure: Outcome | None = None
    stages: Stages = field(default_factory=Stages)
    environment: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["ablate"] = "ablate"


Report: TypeAlias = EvaluateReport | BaselineReport | ConfirmReport | AblateReport

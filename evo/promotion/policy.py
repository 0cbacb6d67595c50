"""Gates and thresholds of a search in one frozen object, stored with it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args, get_type_hints

from evo.device.separation import LEVELS
from evo.errors import InvalidInput
from evo.text.limits import LARGEST_FIGURE, MOST, figure
from evo.text.suggestion import unknown


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Everything that decides whether a candidate passes, except the family's numeric tolerance.

    Attributes:
        quick_samples: samples of the quick gate, for every trial that may be among the fastest.
        confirm_samples: interleaved rounds of a confirmation.
        confirm_processes: fresh processes in which a winner is compared, the first included, before a promotion is
            decided for the first time; 1: one process is all, and what kernels owe to their process is not judged.
        most_processes: up to how many more are added while they leave open whether the challenger is faster.
        process_looks: at how many numbers of processes a promotion is decided, evenly spaced: 5, 8, 11 and 15.
        process_samples: rounds of each of them that count over processes; at most `confirm_samples`.
        false_promotion: probability of promoting a kernel that is no faster than the incumbent, over all looks.
        futility: a challenger whose mean over processes reaches the minimum gain with less than this probability gets
            no further processes.
        prune_ratio: after a fifth of the quick samples, a candidate whose median is this many times slower than the
            slowest elite is stopped early (outcome Pruned); None never prunes.
        shorten_ratio: after a fifth of the quick samples, a candidate whose lower quartile is this many times slower
            than the slowest elite gets one more sample and no further ones: it ranks, but among the elites it will
            not be; None takes all samples of every candidate.
        minimum_gain: smallest relative gain over the incumbent worth a promotion (0.02 = 2 % less time).
        minimum_effect: smallest Hedges' g.
        effect_trim: share of the smallest and of the largest samples that the effect size leaves out: on a shared
            machine a few interrupted samples would hide any gain.
        least_rounds: fewest rounds of one process that promote anything, and that are taken however little time there
            is.
        judged_calls: calls of a confirmation of which each meets other inputs than the call before; as many of them as
            fit the time, and 16 at least. So many right answers exclude one wrong call in a third of their number.
        judged_inputs: inputs that the further processes of a confirmation draw and judge one call on, all together; as
            many of them as fit the time.
        min_calls_per_error: judged calls have to exclude, with `confidence`, that one call in so many is wrong; None:
            the verdict states what they exclude, whatever it is.
        max_ring_ratio: how many times as long a call on outputs of its own may take as one that is repeated on the
            same outputs.
        max_ring_ratio_of_caches: the same where a faster cache holds the one set of buffers than holds all of them.
        maximum_quick_gap: largest relative difference between the confirmed time and the quick one that is not reported
            (0.25 = a quarter more or less time); it only warns. None reports none.
        session_share: share of that difference, on a logarithmic scale, that the fastest baseline has to show as well
            for the device, and not the kernel, to be named as its cause.
        confidence: of the bootstrap intervals.
        significance: of the paired test, before the correction for the number of challengers.
        max_skipped, skip_confidence: a kernel whose calls take longer by more than this share on outputs that hold
            nothing yet than on those that hold the answer, with this confidence, skips work.
        max_rework: how many times as long they may take where that is not sure; the rest is room for noise.
        max_rework_bound: what noise may leave open of it; more cannot tell a sound kernel from one that skips a third.
        max_incumbent_slowdown: how many times as long the incumbent may take, in any process, as in its own
            confirmation; more means that something slows it, and nothing is promoted over it.
        suspect_speedup: a trial that is this many times as fast as the fastest baseline is marked for a person to look
            at.
        session_drift: by how much a machine may be slower than when a champion was confirmed, for trials to challenge
            it where no trial of the search measured the champion.
        challengers: how many of the elites may challenge, so that a lucky time at the top does not shut out the next.
        final_challengers: how many challenge once all trials have ended, at most.
        confirming_share: of the time a search has been running, what confirmations may take before it ends.
        other_unit_s: how long a confirmation waits for another device than the one that measured the challenger, where
            there is one.
        challenge_every: trials between two challenges of the incumbent, at least, while a search runs (one always ends
            it).
        max_registers, max_shared_memory_bytes, min_occupancy: gates beyond what the target itself enforces; None: none.
        max_stack_bytes, max_spill_bytes: a stack frame or spills reject by default; None: no gate.
        compile_timeout_s, verify_timeout_s, measure_timeout_s: hard limits of one stage of one trial.
        memory_limit_bytes: what a runner may allocate beyond what it holds when it starts.
        require_sanitizers: refuse a promotion where a sanitizer did not run; what one finds always forbids it.
        require_profile: refuse a promotion where no profile could be taken; else its gates count only where one was.
        min_separation: how far candidates of a CPU are kept apart from the judge: a level of `evo.device.separation`.
        min_tensor_active, min_achieved_occupancy, min_sector_efficiency: of the winner's profile, as fractions.
        min_fp8_operations: of its profile; 1 for a family that is to use them.
        min_l2_hit_gain, min_dram_drop: against the incumbent's profile: 0.08 is 8 percentage points.
        max_candidate_faults: crashes and time-outs of one trial before it is final (a fault may be the machine's).
        max_worker_losses: lost workers before a trial is Abandoned.
        reference_failures: a search ends when reference.py failed on each of its first trials, this many.
        seeds: input seeds each nominal correctness case is repeated with.
    """

    name: str = "default"
    quick_samples: int = 40
    confirm_samples: int = 100
    confirm_processes: int = 5
    most_processes: int = 15
    process_looks: int = 4
    process_samples: int = 50
    false_promotion: float = 0.001
    futility: float = 0.01
    prune_ratio: float | None = 1.5
    shorten_ratio: float | None = 1.02
    minimum_gain: float = 0.02
    minimum_effect: float = 0.8
    effect_trim: float = 0.2
    least_rounds: int = 5
    judged_calls: int = 300
    judged_inputs: int = 300
    min_calls_per_error: int | None = None
    max_ring_ratio: float = 1.25
    max_ring_ratio_of_caches: float = 4.0
    maximum_quick_gap: float | None = 0.25
    session_share: float = 0.5
    confidence: float = 0.95
    significance: float = 0.05
    max_skipped: float = 0.02
    skip_confidence: float = 0.999
    max_rework: float = 1.1
    max_rework_bound: float = 1.5
    max_incumbent_slowdown: float = 1.5
    suspect_speedup: float = 10.0
    session_drift: float = 0.1
    challengers: int = 3
    final_challengers: int = 6
    confirming_share: float = 0.1
    other_unit_s: float = 10.0
    challenge_every: int = 50
    max_registers: int | None = None
    max_shared_memory_bytes: int | None = None
    min_occupancy: float | None = None
    max_stack_bytes: int | None = 0
    max_spill_bytes: int | None = 0
    compile_timeout_s: float = 60.0
    verify_timeout_s: float = 30.0
    measure_timeout_s: float = 60.0
    memory_limit_bytes: int = 4 << 30
    require_sanitizers: bool = False
    require_profile: bool = False
    min_separation: str = "none"
    min_tensor_active: float | None = None
    min_achieved_occupancy: float | None = None
    min_sector_efficiency: float | None = None
    min_fp8_operations: int | None = None
    min_l2_hit_gain: float | None = None
    min_dram_drop: float | None = None
    max_candidate_faults: int = 1
    max_worker_losses: int = 3
    reference_failures: int = 3
    seeds: int = 3


_L4_NOTES = Policy(
    name="l4-notes",
    minimum_gain=0.05,
    max_registers=96,
    max_shared_memory_bytes=48 << 10,
    min_occupancy=0.25,
    min_tensor_active=0.20,
    min_achieved_occupancy=0.25,
    min_sector_efficiency=0.70,
)
"""The user's own gates for the L4 (KERNELS and USER notes): stricter than what makes a kernel fast."""

POLICIES: dict[str, Policy] = {
    "default": Policy(),
    "l4-notes": _L4_NOTES,
    # What the same notes ask of a final champion over the earlier one.
    "l4-final": replace(_L4_NOTES, name="l4-final", minimum_gain=0.20, min_l2_hit_gain=0.08, min_dram_drop=0.10),
}
"""Policies known by name; a file may override any field of one."""


def policy_from(document: str | Mapping[str, Any]) -> Policy:
    """A policy by name, or from a document that overrides some fields of one.

    Args:
        document: ``"default"``; or e.g. ``{"base": "l4-notes", "minimum_gain": 0.03}``, `base` being ``default`` where
            it is left out. A policy with overrides is called ``custom`` unless the document names it.

    Raises:
        InvalidInput: unknown name or field (with the nearest known one), wrong type, or a value out of its range.
    """
    if isinstance(document, str):
        return _named(document)
    overrides = dict(document)
    base = _named(str(overrides.pop("base", "default")))
    for field, value in overrides.items():
        _check(field, value)
    return Policy(**{**vars(base), "name": "custom", **overrides} if overrides else vars(base))


def _named(name: str) -> Policy:
    if name not in POLICIES:
        raise InvalidInput("policy", unknown(name, POLICIES, "policies"))
    return POLICIES[name]


DAY_S = 86_400.0

_TYPES = get_type_hints(Policy)
_LEAST = {
    "quick_samples": 5,
    "confirm_samples": 10,
    "confirm_processes": 1,
    "most_processes": 1,
    "process_looks": 1,
    "process_samples": 5,
    "false_promotion": 1e-9,
    "futility": 1e-9,
    "prune_ratio": 1.0,
    "shorten_ratio": 1.0,
    "confidence": 0.5,
    "skip_confidence": 0.5,
    "significance": 1e-12,
    "least_rounds": 5,
    "judged_calls": 16,
    "min_calls_per_error": 1,
    "max_ring_ratio": 1.0,
    "max_ring_ratio_of_caches": 1.0,
    "suspect_speedup": 1.0,
    "max_rework": 1.0,
    "max_rework_bound": 1.0,
    "max_incumbent_slowdown": 1.0,
    "challengers": 1,
    "final_challengers": 1,
    "confirming_share": 1e-6,
    "challenge_every": 1,
    "compile_timeout_s": 0.1,
    "verify_timeout_s": 0.1,
    "measure_timeout_s": 0.1,
    "memory_limit_bytes": 1 << 20,
    "max_candidate_faults": 1,
    "max_worker_losses": 1,
    "reference_failures": 1,
    "seeds": 1,
}
_MOST = {
    "quick_samples": 100_000,
    "confirm_samples": 100_000,
    "confirm_processes": 1_000,
    "most_processes": 1_000,
    "process_looks": 100,
    "process_samples": 100_000,
    "effect_trim": 0.4,
    "least_rounds": 100_000,
    "judged_calls": 1_000_000,
    "judged_inputs": 1_000_000,
    "min_calls_per_error": MOST,
    "challengers": 1_000,
    "final_challengers": 1_000,
    "other_unit_s": DAY_S,
    "challenge_every": MOST,
    "compile_timeout_s": DAY_S,
    "verify_timeout_s": DAY_S,
    "measure_timeout_s": DAY_S,
    "memory_limit_bytes": 1 << 50,
    "max_candidate_faults": 1_000,
    "max_worker_losses": 1_000,
    "reference_failures": 1_000,
    "seeds": 1_000,
}
"""More than any search has use for, and few enough for clocks, memory and whoever waits; of all else 10^18."""
_FRACTIONS = {
    "minimum_gain",
    "false_promotion",
    "futility",
    "max_skipped",
    "skip_confidence",
    "session_drift",
    "session_share",
    "confirming_share",
    "confidence",
    "significance",
    "min_occupancy",
    "min_tensor_active",
    "min_achieved_occupancy",
    "min_sector_efficiency",
    "min_l2_hit_gain",
    "min_dram_drop",
}


def _check(field: str, value: object) -> None:
    where = f"policy.{field}"
    if field not in _TYPES:
        raise InvalidInput(where, unknown(field, [known.name for known in fields(Policy)], "fields"))
    if not _fits(value, _TYPES[field]):
        raise InvalidInput(where, f"expected {_describe(_TYPES[field])}, not {value!r:.100}")
    if field == "min_separation" and value not in LEVELS:
        raise InvalidInput(where, unknown(str(value), LEVELS, "levels"))
    if isinstance(value, (int, float)):
        least, most = _LEAST.get(field, 0), _MOST.get(field, LARGEST_FIGURE)
        fits = least <= value < 1.0 if field in _FRACTIONS else least <= value <= most
        if not fits:
            upper = " and below 1, as a fraction: 0.02 is 2 %" if field in _FRACTIONS else _upper(most, value)
            raise InvalidInput(where, f"must be at least {least}{upper}; not {value!r:.100}")


def _upper(most: float, value: float) -> str:
    return f" and at most {figure(most)}" if value > most else ""


def _fits(value: object, annotation: Any) -> bool:
    accepted = get_args(annotation) or (annotation,)
    if isinstance(value, bool):
        return bool in accepted
    return isinstance(value, (int, *accepted) if float in accepted else accepted)


def _describe(annotation: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null (no gate)"}
    return " or ".join(words[kind] for kind in get_args(annotation) or (annotation,))

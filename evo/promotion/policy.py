"""Policy: the gates and thresholds of a search in one frozen object, which is stored with the search."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

from evo.device.separation import LEVELS
from evo.errors import InvalidInput
from evo.text.document import literal_text
from evo.text.limits import LARGEST_FIGURE, MOST, figure
from evo.text.suggestion import number_meant, unknown


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The gates and thresholds that a candidate must pass. Numeric tolerances are part of the family instead.

    The *elites* of a search are its eight fastest trials so far. A *buffer set* contains the inputs and outputs of one
    call.

    Attributes:
        quick_samples: number of quick samples of a trial. Trials that are clearly slower than the elites get fewer.
        confirm_samples: maximum number of interleaved rounds of the first process of a confirmation.
        round_error: the rounds of a process end early when, for each compared pair of kernels, the logarithm of the
            median time ratio has a standard error of at most this value. None disables this rule.
        fewest_rounds: minimum number of rounds before this rule and the next two rules can end a process. They are
            checked after every 10 rounds.
        hopeless_errors: the rounds of a first process also end if the challenger's speed-up over the incumbent is below
            the minimum gain by this many standard errors, so that it cannot be promoted. None disables this rule.
        first_round_error: the rounds of a process also end if the relative standard error of the logarithm of the
            speed-up over the incumbent is at most this value. Without an incumbent, this rule applies only to the first
            process, and uses the speed-up over the fastest baseline. None disables this rule.
        confirm_processes: number of fresh processes, including the first, before the first decision on a promotion.
            With 1, the decision is based on a single process, and differences between processes are not taken into
            account.
        most_processes: maximum number of fresh processes. Processes are added while the decision is open.
        process_looks: number of decision points. A decision point is a number of processes after which a promotion is
            decided. The numbers are spaced as evenly as whole numbers permit (by default 5, 8, 11 and 15).
        process_samples: maximum number of rounds per process that are used in comparisons over processes; at most
            `confirm_samples`.
        baseline_samples: replaces `process_samples` if there is no incumbent. Additional processes then do not affect
            the decision; they only improve the prediction of the speed-up over the fastest baseline, or of the time.
        false_promotion: probability of promoting a kernel that is not faster than the incumbent, over all decision
            points.
        futility: a challenger is refused without more processes if the one-sided upper bound of its mean gain over
            processes, with the confidence 1 - `futility`, is below the minimum gain.
        assumed_spread, assumed_freedom: assumed standard deviation of the speed-ups of processes, and its degrees of
            freedom (0.006 means 0.6 %). Decisions after the first processes need it, because a few processes do not
            show how much processes differ. With a larger value, fewer challengers are refused after one process.
        prune_ratio: after a fifth of the quick samples, a candidate is stopped (outcome Pruned) if its median is more
            than this factor times the time of the slowest elite. With fewer than eight elites, no candidate is stopped
            by this rule. None disables this rule.
        shorten_ratio: after a fifth of the quick samples, a candidate gets only one more sample, and none in the second
            cache mode, if its lower quartile is more than this factor times the time of the slowest elite. Such a
            candidate cannot become an elite. With fewer than eight elites, the limit is `prune_ratio` times the time of
            the fastest kernel. None disables this rule.
        hopeless_ratio: a candidate is stopped before its remaining cases are verified (outcome Pruned) if its first
            verified calls take more than 20 ms each, and more than this factor times the time of the slowest elite.
            With fewer than eight elites, the fastest kernel replaces the slowest elite. None disables this rule.
        minimum_gain: smallest relative gain over the incumbent that justifies a promotion (0.02 means 2 % less time).
        minimum_effect: smallest effect size (Hedges' g) that justifies a promotion.
        effect_trim: fraction of the samples that the effect size ignores at each end (the smallest and the largest
            samples). Otherwise, a few interrupted samples on a shared machine would hide any gain.
        least_rounds: minimum number of rounds of a process that can lead to a promotion. These rounds are taken even if
            time is short.
        judged_calls: number of calls of a confirmation whose outputs are checked, each on different inputs than the
            previous call. If time is short, fewer calls are checked, but at least 16. If N checked calls are right, an
            error rate above 3/N is excluded with 95 % confidence.
        judged_inputs: total number of different inputs that the second to the `confirm_processes`-th process of a
            confirmation check, with one call per input. Each additional process checks as many as one of them. If time
            is short, fewer inputs are checked.
        min_calls_per_error: with the probability `confidence`, the checked calls must exclude an error rate of 1 /
            `min_calls_per_error`. With None, the excluded error rate is only reported.
        max_ring_ratio: largest accepted time of a call if successive calls use separate outputs, relative to repeated
            calls on the same outputs. It also limits the time of a call in shorter batches of calls, relative to
            batches as long as in the timed rounds.
        max_ring_ratio_of_caches: replaces `max_ring_ratio` if one buffer set fits in a faster cache than all sets in
            total. If the sets fill more than half of a cache, the limit lies between the two.
        max_ring_ratio_of_memory: largest value of the limit that replaces `max_ring_ratio_of_caches` if the bandwidth
            of the memory is known: the time of loading the buffers from memory then determines the limit.
        maximum_quick_gap: the verdict contains a warning if the longer of the confirmed and the quick time is more than
            1 + `maximum_quick_gap` times the shorter one, and their confidence intervals do not overlap. None disables
            the warning.
        session_share: fraction that determines the cause in this warning. The warning names the device if the fastest
            baseline's time changed by at least this fraction of the kernel's change (both as logarithms of ratios).
            Otherwise, it names the kernel.
        confidence: confidence of the bootstrap intervals.
        significance: level of the paired test, before the correction for the number of challengers.
        max_skipped, skip_confidence: each call is timed on overwritten outputs, and on outputs that already hold the
            result. A kernel is refused, because it skips work, if the ratio of the two times is certainly above
            1 + `max_skipped` (with the confidence `skip_confidence`).
        max_rework: largest accepted value of the same ratio if it is not certain that the kernel skips work. It
            includes an allowance for noise.
        max_rework_bound: largest accepted upper end of the confidence interval of the same ratio. A higher upper end
            cannot exclude that the kernel skips a third of its work.
        max_incumbent_slowdown: largest accepted time of the incumbent, in any process, relative to its own
            confirmation. Above it, the incumbent is assumed to be disturbed, and no challenger is promoted.
        max_repeat_ratio: largest accepted time of a call on new inputs, relative to a call on inputs that were timed
            before.
        few_elements, max_repeat_ratio_of_few: `max_repeat_ratio_of_few` replaces `max_repeat_ratio` if all inputs
            together have at most `few_elements` elements, because a branch predictor can learn the branches of so few
            elements.
        noisy_repeat_factor: on a noisy device, only a ratio above this factor times `max_repeat_ratio` or
            `max_repeat_ratio_of_few` is attributed to the kernel. A smaller excess may be caused by other programs, so
            the rule is then undecided.
        suspect_speedup: a trial whose speed-up over the fastest baseline exceeds this factor is flagged for review.
        session_drift: allowance for a machine that is slower than in the champion's confirmation. If the search itself
            neither measured nor confirmed the champion, a trial may challenge although it is slower than the
            champion's confirmed time, by up to this fraction.
        challengers: number of elites that may challenge. With more than one, a trial whose time is too low by chance
            does not keep other trials from challenging.
        final_challengers: maximum number of challenges after all trials have ended. In addition, a challenger whose
            kernel turns out to be invalid is replaced by the next trial, at most this number of times.
        confirming_share: fraction of a search's running time that confirmations may take before the search ends.
        other_unit_s: seconds that a confirmation waits for a second device of the same model, if one is connected. A
            confirmation preferably does not run on the device that measured the challenger.
        challenge_every: minimum number of trials between two challenges of the incumbent while a search runs. A
            challenge is also due after the last trial.
        max_registers, max_shared_memory_bytes, min_occupancy: limits in addition to the target's limits; None means no
            limit.
        max_stack_bytes, max_spill_bytes: limits of stack frame and spills, 0 by default; None means no limit.
        compile_timeout_s, verify_timeout_s, measure_timeout_s: time limits of the stages of a trial, in seconds.
        memory_limit_bytes: memory in bytes that a runner may allocate after it has computed the expected outputs.
        require_sanitizers: True to refuse a promotion if a sanitizer did not run. A finding always prevents a
            promotion.
        require_profile: True to refuse a promotion if no profile could be taken. With False, profile gates apply only
            if a profile was taken.
        min_separation: required isolation between CPU candidates and the process that checks and times them, a level of
            `evo.device.separation`.
        untrusted: ``sandbox`` if only workers that compile in a sandbox and fully isolate CPU kernels may work for the
            search and its variants; ``allow`` if any worker may.
        min_tensor_active, min_achieved_occupancy, min_sector_efficiency: lower limits for counters of the challenger's
            profile, as fractions; None means no limit.
        min_fp8_operations: minimum number of FP8 operations in the challenger's profile, e.g. 1 for a family that must
            use FP8; None means no limit.
        min_l2_hit_gain, min_dram_drop: minimum change from the incumbent's profile; 0.08 means 8 percentage points.
            None means no limit.
        max_candidate_faults: number of crashes and timeouts after which a trial is not repeated. A value above 1
            repeats trials, because a fault of the machine can have the same symptoms.
        max_worker_losses: number of lost workers after which a trial is Abandoned.
        reference_failures: number of trials at the start of a search after which the search ends if reference.py failed
            on all of them.
        seeds: number of random seeds for the inputs of the first correctness case; 1 has the same effect as 2. The
            inputs of one additional seed are checked only after the timed rounds.
        thresholds: thresholds by rule name, for rules that declare a default threshold; see `threshold`.
    """

    name: str = "default"
    quick_samples: int = 40
    confirm_samples: int = 100
    round_error: float | None = 0.001
    fewest_rounds: int = 30
    hopeless_errors: float | None = 4.0
    first_round_error: float | None = 0.005
    confirm_processes: int = 5
    most_processes: int = 15
    process_looks: int = 4
    process_samples: int = 50
    baseline_samples: int = 20
    false_promotion: float = 0.0007
    futility: float = 0.01
    assumed_spread: float = 0.006
    assumed_freedom: int = 3
    prune_ratio: float | None = 1.5
    shorten_ratio: float | None = 1.02
    hopeless_ratio: float | None = 10.0
    minimum_gain: float = 0.02
    minimum_effect: float = 0.8
    effect_trim: float = 0.2
    least_rounds: int = 5
    judged_calls: int = 300
    judged_inputs: int = 300
    min_calls_per_error: int | None = None
    max_ring_ratio: float = 1.25
    max_ring_ratio_of_caches: float = 4.0
    max_ring_ratio_of_memory: float = 25.0
    maximum_quick_gap: float | None = 0.25
    session_share: float = 0.5
    confidence: float = 0.95
    significance: float = 0.05
    max_skipped: float = 0.02
    skip_confidence: float = 0.999
    max_rework: float = 1.1
    max_rework_bound: float = 1.5
    max_incumbent_slowdown: float = 1.5
    max_repeat_ratio: float = 1.5
    few_elements: int = 16_384
    max_repeat_ratio_of_few: float = 4.0
    noisy_repeat_factor: float = 2.0
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
    untrusted: str = "allow"
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
    thresholds: Mapping[str, float] = field(default_factory=dict, hash=False)

    def threshold(self, rule: str) -> float:
        """Return the threshold of a rule: the value in `thresholds`, or the rule's default."""
        return self.thresholds.get(rule, DECLARED[rule])


DECLARED: dict[str, float] = {}
"""Default thresholds by rule, as declared by the modules of `evo.promotion.rules`."""

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

POLICIES: dict[str, Policy] = {
    "default": Policy(),
    "l4-notes": _L4_NOTES,
    "l4-final": replace(_L4_NOTES, name="l4-final", minimum_gain=0.20, min_l2_hit_gain=0.08, min_dram_drop=0.10),
}
"""Policies by name. A policy document may override any field of a named policy."""

PURPOSES: Mapping[str, str] = {
    "default": "Promotes on measured speed and correctness alone, without gates on resources or profiles.",
    "l4-notes": "For reduced-precision kernels on an NVIDIA L4: adds limits on registers, shared memory, occupancy and "
    "profiler counters. A fast kernel may fail some of them.",
    "l4-final": "Like l4-notes, but a promotion also needs a gain of 20 % and better cache use than the previous "
    "champion.",
}
"""Purpose of each policy."""


def policy_from(document: str | Mapping[str, Any]) -> Policy:
    """Return the policy that a document describes.

    Args:
        document: name of a policy, e.g. ``"default"``, or a table of fields that override those of the policy `base`,
            e.g. ``{"base": "l4-notes", "minimum_gain": 0.03}``. `base` is ``default`` if omitted. A policy with
            overrides is called ``custom`` unless the document names it.

    Raises:
        InvalidInput: a name or field is unknown (the message suggests the nearest name), or a value has the wrong type
            or is out of range.
    """
    if isinstance(document, str):
        return _policy_of(document)
    overrides = dict(document)
    base = _policy_of(str(overrides.pop("base", "default")))
    for name, value in overrides.items():
        if name == "thresholds":
            _check_thresholds(value)
        else:
            _check(name, value)
    return Policy(**{**vars(base), "name": "custom", **overrides} if overrides else vars(base))


def _policy_of(name: str) -> Policy:
    if name not in POLICIES:
        raise InvalidInput("policy", unknown(name, POLICIES, "policies"))
    return POLICIES[name]


DAY_S = 86_400.0

UNTRUSTED = ("allow", "sandbox")

_TYPES = get_type_hints(Policy)
_LEAST = {
    "quick_samples": 5,
    "confirm_samples": 10,
    "round_error": 1e-9,
    "fewest_rounds": 20,
    "hopeless_errors": 2.0,
    "first_round_error": 1e-9,
    "confirm_processes": 1,
    "most_processes": 1,
    "process_looks": 1,
    "process_samples": 5,
    "baseline_samples": 5,
    "false_promotion": 1e-9,
    "futility": 1e-9,
    "assumed_freedom": 1,
    "prune_ratio": 1.0,
    "shorten_ratio": 1.0,
    "hopeless_ratio": 2.0,
    "confidence": 0.5,
    "skip_confidence": 0.5,
    "significance": 1e-12,
    "least_rounds": 5,
    "judged_calls": 16,
    "min_calls_per_error": 1,
    "max_ring_ratio": 1.0,
    "max_ring_ratio_of_caches": 1.0,
    "max_ring_ratio_of_memory": 1.0,
    "max_repeat_ratio": 1.0,
    "max_repeat_ratio_of_few": 1.0,
    "noisy_repeat_factor": 1.0,
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
    "fewest_rounds": 100_000,
    "confirm_processes": 1_000,
    "most_processes": 1_000,
    "process_looks": 100,
    "assumed_freedom": 1_000,
    "process_samples": 100_000,
    "baseline_samples": 100_000,
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
"""Upper limits of fields. They exceed what a search can use, but are small enough for clocks, memory and waiting.
Fields without an entry have the limit 10^18, but those in `_FRACTIONS` must be below 1.
"""
_FRACTIONS = {
    "minimum_gain",
    "round_error",
    "first_round_error",
    "false_promotion",
    "futility",
    "assumed_spread",
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
        written = _meant(field, value)
        raise InvalidInput(where, f"expected {_describe(_TYPES[field])}, not {literal_text(value)}{written}")
    if field == "min_separation" and value not in LEVELS:
        raise InvalidInput(where, unknown(str(value), LEVELS, "levels"))
    if field == "untrusted" and value not in UNTRUSTED:
        raise InvalidInput(where, unknown(str(value), UNTRUSTED, "values of this field"))
    if isinstance(value, (int, float)):
        least, most = _LEAST.get(field, 0), _MOST.get(field, LARGEST_FIGURE)
        fits = least <= value < 1.0 if field in _FRACTIONS else least <= value <= most
        if not fits:
            upper = " and below 1, as a fraction: 0.02 is 2 %" if field in _FRACTIONS else _upper(most, value)
            percent = f"; write {value / 100:g}" if field in _FRACTIONS and 1 <= value < 100 else _example(field)
            raise InvalidInput(where, f"must be at least {least}{upper}; not {literal_text(value)}{percent}")


def _meant(field: str, value: object) -> str:
    """Return the last part of an error text: a remedy if `value` is a string that clearly means a valid value.

    For ``"5 %"``, it is ``; write 0.05``. In all other cases, it is the field's default as an example.
    """
    if not isinstance(value, str):
        return _example(field)
    words: Mapping[str, object] = {"true": True, "false": False, "yes": True, "no": False, "none": None, "null": None}
    meant = words.get(value.strip().lower(), number_meant(value, {"": 1, "%": 0.01, "s": 1, "us": 1, "gb": 1, "mb": 1}))
    try:
        _check(field, meant)
    except InvalidInput:
        return _example(field)
    if meant is None and value.strip().lower() not in words:
        return _example(field)
    return f"; write {literal_text(meant)}"


def _example(field: str) -> str:
    return f", e.g. {literal_text(getattr(Policy(), field))}"


def _check_thresholds(value: object) -> None:
    if not isinstance(value, Mapping):
        raise InvalidInput("policy.thresholds", f"expected a table of numbers by rule, not {literal_text(value)}")
    for rule, threshold in value.items():
        where = f"policy.thresholds.{rule}"
        if rule not in DECLARED:
            raise InvalidInput(where, unknown(str(rule), DECLARED, "rules with a threshold"))
        if not _fits(threshold, float):
            raise InvalidInput(where, f"expected a number, not {literal_text(threshold)}")
        if not 0 <= threshold <= LARGEST_FIGURE:
            raise InvalidInput(
                where, f"must be at least 0{_upper(LARGEST_FIGURE, threshold)}; not {literal_text(threshold)}"
            )


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

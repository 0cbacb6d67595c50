"""Policy for tests of verdicts. Its thresholds are explicit, so changed defaults do not affect the tests."""

from evo.promotion.policy import Policy

STATED = Policy(
    confirm_samples=100,
    round_error=0.001,
    fewest_rounds=30,
    hopeless_errors=4.0,
    first_round_error=0.005,
    confirm_processes=5,
    most_processes=15,
    process_looks=4,
    process_samples=50,
    false_promotion=0.001,
    futility=0.01,
    assumed_spread=0.006,
    assumed_freedom=3,
    minimum_gain=0.02,
    minimum_effect=0.8,
    effect_trim=0.2,
    confidence=0.95,
    significance=0.05,
    max_skipped=0.02,
    skip_confidence=0.999,
    max_rework=1.1,
    max_rework_bound=1.5,
    max_incumbent_slowdown=1.5,
    max_repeat_ratio=1.5,
    few_elements=16_384,
    max_repeat_ratio_of_few=4.0,
    noisy_repeat_factor=2.0,
)

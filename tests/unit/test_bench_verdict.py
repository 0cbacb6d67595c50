"""The verdict benchmark measures the error rates of verdicts on recorded noise."""

from pathlib import Path

import numpy as np
import pytest

from evo.promotion.policy import Policy
from tests.bench.verdict.__main__ import RECORDED, main
from tests.bench.verdict.draws import SYNTHETIC, Recorded, Source, Synthetic, normal
from tests.bench.verdict.noise import SERIES, Noise
from tests.bench.verdict.rates import Rate, power, predicted, promoted
from tests.bench.verdict.simulate import as_recorded, covered, worked


def quiet(processes: int = 12, spread: float = 0.01, between: float = 0.0) -> Noise:
    """Return fake noise. Samples vary by `spread`, and kernels vary by `between` from process to process."""
    rng = np.random.default_rng(0)
    times = {"a": 100.0, "b": 120.0}
    made = []
    for _ in range(processes):
        own = {kernel: time_us * rng.lognormal(0, between) for kernel, time_us in times.items()}
        made.append({name: (own[kernel] * rng.lognormal(0, spread, 40)).tolist() for name, kernel in SERIES.items()})
    return Noise(about={"family": "sdpa", "problem": "S=1", "device": "none"}, processes=tuple(made))


def test_recorded_noise_is_loaded_as_saved(tmp_path: Path) -> None:
    noise = quiet(2)
    noise.save(tmp_path / "noise.json.gz")
    again = Noise.load(tmp_path / "noise.json.gz")
    assert again.about == noise.about
    assert np.allclose(again.of(1, "b2"), noise.of(1, "b2"), rtol=1e-4)


def test_on_a_quiet_machine_faster_challengers_are_promoted_and_equal_kernels_are_not() -> None:
    source = Recorded(noise=quiet())
    assert promoted(source, (0.0, -0.01), 20, Policy(), 0) == (Rate(hits=0, tried=20),) * 2
    found = power(source, 0.05, 10, Policy(), 0)
    assert found.promoted.hits == 10
    assert abs(found.measured) < 0.5
    assert as_recorded(quiet(2), Policy()) == (Rate(hits=0, tried=12), Rate(hits=2, tried=2))


@pytest.mark.parametrize("source", SYNTHETIC.values(), ids=SYNTHETIC)
def test_slower_kernel_is_not_promoted_if_times_differ_between_processes(source: Source) -> None:
    assert promoted(source, (-0.01,), 50, Policy(), 0)[0].hits == 0


def test_verdict_is_undecided_if_times_differ_too_much_between_processes() -> None:
    found = power(normal(0.06), 0.04, 12, Policy(), 0)
    assert found.promoted.hits + found.cannot_tell.hits <= 12
    assert found.cannot_tell.hits > 0
    assert found.processes > 5


@pytest.mark.slow
def test_gain_of_five_percent_is_rarely_refused_if_times_differ_by_five_percent_between_processes() -> None:
    """Most first processes that are too slow by chance give the verdict "cannot tell" after additional processes."""
    found = power(normal(0.05), 0.05, 60, Policy(), 0)
    assert found.promoted.hits + found.cannot_tell.hits >= 48


@pytest.mark.parametrize(("gain", "most"), [(-0.05, 1.0), (-0.01, 1.5)])
def test_slower_kernel_is_refused_after_one_or_two_processes_without_process_noise(gain: float, most: float) -> None:
    found = power(normal(0.0), gain, 20, Policy(), 0)
    assert (found.promoted.hits, found.cannot_tell.hits) == (0, 0)
    assert found.processes <= most


@pytest.mark.slow
@pytest.mark.parametrize("processes", [5, 14])
def test_prediction_interval_of_normally_distributed_processes_covers_95_percent(processes: int) -> None:
    assert predicted(normal(0.02), processes, 400, Policy(), 0).share == pytest.approx(0.95, abs=0.03)


def test_work_rule_on_a_busy_machine_refuses_only_kernels_that_skip_work() -> None:
    busy = Noise.load(RECORDED / "sdpa-256-Xeon-busy.json.gz")
    sound, skipping = worked(busy, 1.0, 50, 0), worked(busy, 3.0, 50, 0, slow=True)
    assert (sound.met.hits, sound.undecided.hits, skipping.met.hits) == (50, 0, 0)


def test_prediction_intervals_cover_95_percent_of_shuffled_processes() -> None:
    in_order, shuffled = covered(quiet(40, between=0.01), Policy(), 20, 0)
    assert in_order.tried == 40
    assert shuffled.share == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("uneven", [0.0, 1.0], ids=["equal noise", "noise differs"])
def test_prediction_interval_covers_95_percent_with_noise_only_between_rounds(uneven: float) -> None:
    source = Synthetic(effects=lambda shape, _: np.ones(shape), uneven=uneven)
    assert predicted(source, 5, 400, Policy(), 0).share == pytest.approx(0.95, abs=0.03)


def test_confidence_interval_of_a_rate_is_binomial() -> None:
    assert Rate(hits=0, tried=1000).bounds == pytest.approx((0, 0.00368), abs=1e-5)
    assert Rate(hits=50, tried=50).bounds == pytest.approx((0.9289, 1), abs=1e-4)
    assert str(Rate(hits=1, tried=4)).startswith("1 of 4 (25.00%; 95 % interval ")


def test_kernel_is_not_promoted_over_itself_on_recorded_noise() -> None:
    recordings = sorted(RECORDED.glob("*.json.gz"))
    assert recordings
    for path in recordings:
        assert promoted(Recorded(noise=Noise.load(path)), (0.0,), 20, Policy(), 0)[0].hits == 0


@pytest.mark.slow
def test_verdict_benchmark_exits_with_1_if_a_condition_is_unmet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet(processes=6, spread=0.5).save(tmp_path / "noisy.json.gz")
    assert main([str(tmp_path / "noisy.json.gz"), "--confirmations", "5", "--share", "5"]) == 1
    assert "promotion of a true gain of 5%: 0 of 1" in capsys.readouterr().out

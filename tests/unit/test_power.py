"""The power of kernels is measured with a fake meter, with RAPL counters in files, and with a fake NVML."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evo.device import ENERGY, Device, lacking_meter, without_meter
from evo.errors import InvalidInput
from evo.promotion.goal import Costs, Goal, Kernel, needs_energy
from evo.trial import Proposal, Trial
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.results import ConfirmReport, Repeat
from evo.trial.timing import Power, Timing
from workers.backends import InvalidMeasurementError
from workers.backends.cpu.powercap import FOLDER, PowercapMeter
from workers.backends.cuda.machine import nvml
from workers.backends.cuda.machine.nvml import NvmlMeter
from workers.backends.energy import NoMeterError
from workers.measure.power import LEAST_SPANS, measure_power


class World:
    """A fake clock, and a fake device that draws power while kernels run."""

    def __init__(self) -> None:
        self.now_s, self.drawn_j = 100.0, 7.0

    def clock(self) -> float:
        return self.now_s

    def run(self, seconds: float, watts: float) -> None:
        self.now_s += seconds
        self.drawn_j += watts * seconds


class KernelOf:
    """A fake timer whose kernel draws a given power. Each sample has 50 calls."""

    calls, last = 50, 0

    def __init__(self, world: World, call_us: float, watts: float) -> None:
        self.world, self.call_us, self.watts = world, call_us, watts

    def sample(self) -> float:
        self.world.run(self.calls * self.call_us * 1e-6, self.watts)
        return self.call_us


class Meter:
    """A fake energy counter that is updated every `step_s` seconds."""

    name = "fake"

    def __init__(self, world: World, *, step_s: float, span_s: float = 0.2) -> None:
        self.world, self.step_s, self.span_s = world, step_s, span_s
        self.seen_s, self.seen_j = world.now_s, world.drawn_j

    def read_uj(self) -> float:
        if self.world.now_s - self.seen_s >= self.step_s:
            self.seen_s, self.seen_j = self.world.now_s, self.world.drawn_j
        return self.seen_j * 1e6


@pytest.mark.parametrize("step_s", [0.0, 0.001, 0.1])
def test_power_is_measured_for_any_resolution_of_the_meter(step_s: float) -> None:
    world = World()
    timers = {"challenger": KernelOf(world, 10.0, 40.0), "incumbent": KernelOf(world, 30.0, 25.0)}
    meter = Meter(world, step_s=step_s)
    found = measure_power(timers, meter, 4, rng=np.random.default_rng(1), clock=world.clock)
    for name, timer in timers.items():
        assert found[name].samples_us == pytest.approx([timer.call_us] * 4)
        assert found[name].samples_w == pytest.approx([timer.watts] * 4, rel=0.03)
        assert found[name].meter == "fake"


def test_power_measurement_at_its_time_limit_takes_the_minimum_number_of_samples() -> None:
    world = World()
    timers = {"a": KernelOf(world, 10.0, 40.0)}
    meter = Meter(world, step_s=0.0)
    found = measure_power(timers, meter, 50, rng=np.random.default_rng(1), budget_s=0.1, clock=world.clock)
    assert len(found["a"].samples_w) == LEAST_SPANS


def test_energy_meter_that_does_not_advance_is_reported() -> None:
    world = World()
    timers = {"a": KernelOf(world, 10.0, 0.0)}
    with pytest.raises(InvalidMeasurementError, match="fake does not advance"):
        measure_power(timers, Meter(world, step_s=0.0), 3, rng=np.random.default_rng(1), clock=world.clock)


def zone(folder: Path, place: str, name: str, energy_uj: int, limit_uj: int = 1000) -> Path:
    made = folder / place
    made.mkdir()
    (made / "name").write_text(f"{name}\n")
    (made / "max_energy_range_uj").write_text(f"{limit_uj}\n")
    (made / "energy_uj").write_text(f"{energy_uj}\n")
    return made / "energy_uj"


def test_rapl_meter_sums_package_and_memory_across_counter_overflow(tmp_path: Path) -> None:
    package, memory = zone(tmp_path, "intel-rapl:0", "package-0", 900), zone(tmp_path, "intel-rapl:0:1", "dram", 10)
    core = zone(tmp_path, "intel-rapl:0:0", "core", 5)
    meter = PowercapMeter.here(tmp_path)
    assert meter.name == "RAPL package-0, dram"
    package.write_text("950")
    memory.write_text("30")
    core.write_text("800")
    assert meter.read_uj() == 70
    package.write_text("100")  # the counter overflowed at 1000
    assert meter.read_uj() == 220


def test_error_for_a_machine_without_rapl_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "intel-rapl:0", "psys", 1)
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(NoMeterError, match=f"no RAPL counter of a processor package.*{FOLDER}"):
        PowercapMeter.here()


def test_error_for_an_unreadable_rapl_counter_has_the_chmod_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = zone(tmp_path, "intel-rapl:0", "package-0", 1)

    def forbidden(self: Path, **_: object) -> str:
        if self == file:
            raise PermissionError(13, "Permission denied", str(self))
        return self.read_bytes().decode()

    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(NoMeterError, match=f"sudo chmod a\\+r {file}"):
        PowercapMeter.here(tmp_path)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    state = SimpleNamespace(mj=5.0)
    monkeypatch.setattr(nvml, "energy_mj", lambda uuid: state.mj)
    yield state


def test_nvml_meter_converts_millijoules_to_microjoules(gpu: SimpleNamespace) -> None:
    meter = NvmlMeter("GPU-1")
    gpu.mj = 7.5
    assert (meter.name, meter.read_uj()) == ("NVML total energy", 7500.0)


def test_error_for_a_gpu_without_energy_counter_names_the_remedy(gpu: SimpleNamespace) -> None:
    gpu.mj = None
    with pytest.raises(NoMeterError, match="install nvidia-ml-py"):
        NvmlMeter("GPU-1")


def goal(metric: str) -> Goal:
    made = Goal.of(Objective(metric=metric), {"N": 64}, flops=None, moved=None)
    assert made is not None
    return made


@pytest.mark.parametrize(("metric", "needed"), [("energy_uj", True), ("power_w + 1", True), ("time_us", False)])
def test_metric_over_energy_or_power_requires_a_meter(metric: str, needed: bool) -> None:
    assert needs_energy(Objective(metric=metric)) is needed
    assert not needs_energy(Objective())
    goal(metric).check(["TILE"], compiled=False)
    if needed:
        with pytest.raises(InvalidInput, match="requires energy measurements, and this machine has none: buy one"):
            goal(metric).check(["TILE"], compiled=False, unmetered="this machine has none: buy one")


def test_device_states_the_reason_for_a_missing_energy_meter() -> None:
    def device(kind: str, **software: str) -> Device:
        return Device(kind=kind, model="Toy", architecture="x", uuid="1", limits={}, software=software)

    assert lacking_meter(device("cpu", **{ENERGY: "RAPL package-0"})) is None
    assert lacking_meter(device("cpu", **{ENERGY: without_meter("no file")})) == "Toy has no energy meter: no file"
    assert "update the worker" in str(lacking_meter(device("cpu")))
    assert "which runs no kernels" in str(lacking_meter(device("replay")))


def measured(time_us: float, *watts: float) -> Timing:
    power = Power(samples_w=watts, samples_us=(time_us,) * len(watts), meter="fake") if watts else None
    return Timing(samples_us=(time_us,) * 8, power=power)


def test_trial_cost_by_an_energy_metric_uses_the_measured_power() -> None:
    def trial(timing: Timing) -> Trial:
        return Trial(number=1, proposal=Proposal(config={"TILE": 4}, origin="random"), outcome=Measured(timing=timing))

    assert goal("energy_uj * TILE").judged(trial(measured(10.0, 3.0, 5.0, 4.0))).cost == 160.0
    missing = goal("power_w").judged(trial(measured(10.0))).outcome
    assert missing is not None
    assert missing.kind == "invalid_measurement"


def test_confirmation_by_an_energy_metric_compares_energy_per_call() -> None:
    report = ConfirmReport(
        challenger=measured(10.0, 3.0, 5.0),
        challenger_again=measured(10.0, 4.0, 4.0),
        incumbent=measured(8.0, 6.0, 7.0),
        repeated_against="incumbent",
        repeats=(Repeat(challenger=measured(11.0, 3.0, 3.0), other=measured(9.0, 5.0, 5.0)),),
    )
    costs = Costs.of(goal("energy_uj"), report, {"TILE": 4}, {"TILE": 8})
    ranked = costs.report(report)
    assert ranked.challenger is not None
    assert ranked.incumbent is not None
    assert ranked.challenger.samples_us == (30.0, 50.0)
    assert ranked.incumbent.samples_us == (48.0, 56.0)
    assert ranked.repeats[0].challenger.samples_us == (33.0, 33.0)
    assert costs.metric(10.0) == 40.0
    assert costs.grown(10.0, 1.5) == pytest.approx(1.5)
    assert goal("energy_uj").cost(Kernel(config={}, power_w=2.0), 5.0) == 10.0

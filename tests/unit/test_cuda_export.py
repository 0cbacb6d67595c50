"""An exported CUDA champion has a complete folder, and its loaders work with fake CuPy and PyTorch."""

import ctypes
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

from evo.device import Device
from evo.export.bundle import Bundle
from evo.export.evidence import series
from evo.export.report import profile_markdown
from evo.messages.view import ChampionView, SearchView
from evo.trial import Config, Value
from evo.trial.results import ConfirmReport, Profiled, Repeat
from evo.trial.timing import Timing
from templates.registry import find
from tests.unit.views import CHAMPION, view

FAMILY = Path(__file__).parent.parent / "data" / "families" / "faulty_cuda"
GPU = Device(kind="cuda", model="NVIDIA H200", architecture="sm_90a", uuid="GPU-1", limits={"max_threads": 1024.0})
N = 256
FAST, SLOW = (Timing(samples_us=(time_us,) * 3) for time_us in (8.0, 10.0))


def champion() -> tuple[ChampionView, SearchView]:
    problem: Mapping[str, Value] = {"N": N}
    config: Config = {"FAULT": "none", "REPEAT": 1}
    figures = {"l2_hit_rate": 0.5, "registers": 40.0}
    report = ConfirmReport(
        challenger=FAST,
        challenger_again=FAST,
        incumbent=SLOW,
        baselines={"torch": SLOW},
        repeats=(Repeat(challenger=FAST, other=SLOW),),
        repeated_against="incumbent",
        profiles={
            "challenger": Profiled(tool="Nsight Compute", figures=figures),
            "incumbent": Profiled(tool="Nsight Compute", figures={**figures, "l2_hit_rate": 0.25}),
        },
    )
    promoted = replace(CHAMPION, family="faulty_cuda", problem=problem, config=config, report=report)
    return promoted, view(family="faulty_cuda", problem=problem, device=GPU)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    view, search = champion()
    bundle = Bundle(
        champion=view,
        search=search,
        family=find(str(FAMILY)).family,
        source=b"// source",
        library=b"cubin",
        ptx=b".version 9.0",
    )
    for name, content in bundle.files().items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


class Array(np.ndarray[Any, Any]):
    """A fake CuPy array with an address and a device."""

    device: Any = SimpleNamespace(id=0)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


def array(values: Any, dtype: str = "float32") -> Any:
    return np.asarray(values, dtype=dtype).view(Array)


class Module:
    """A fake cubin. Its kernel computes y = 3 x + 1 at the addresses that a launch passes."""

    launches: list[tuple[Any, ...]]

    def __init__(self, path: str) -> None:
        assert Path(path).read_bytes() == b"cubin"
        Module.launches = []

    def get_function(self, entry: str) -> Any:
        assert entry == "faulty"
        return self._launch

    @staticmethod
    def _launch(grid: Any, block: Any, passed: Any, *, shared_mem: int) -> None:
        Module.launches.append((grid, block, shared_mem))
        x, _, y = (np.ctypeslib.as_array((ctypes.c_float * N).from_address(int(each))) for each in passed)
        y[...] = 3 * x + 1


class Stream:
    """A fake CuPy stream that records the streams for which it waits."""

    waits: list[tuple[int, int]]

    def __init__(self, ptr: int, *, capturing: bool = False) -> None:
        self.ptr, self.capturing = ptr, capturing

    def is_capturing(self) -> bool:
        return self.capturing

    def record(self, event: Any) -> int:
        assert not self.capturing
        return self.ptr

    def wait_event(self, event: int) -> None:
        Stream.waits.append((self.ptr, event))


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    capability = SimpleNamespace(compute_capability="90", id=0)
    made = SimpleNamespace(
        ndarray=Array,
        empty=lambda shape, dtype: np.empty(shape, dtype).view(Array),
        RawModule=Module,
        cuda=SimpleNamespace(
            Device=lambda *_: capability, get_current_stream=lambda: Stream(0), Event=lambda **_: None
        ),
    )
    Stream.waits = []
    monkeypatch.setitem(sys.modules, "cupy", made)
    yield made


def loaded(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"exported_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cuda_export_folder_is_complete_and_describes_the_launch(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("kernel.cu", "kernel.cubin", "kernel.ptx", "kernel.py", "torch_op.py", "config.json", "report.md"),
        *("evidence.json", "evidence.schema.json", "samples.csv", "profile_summary.md"),
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["launch"] == {
        "grid": [1, 1, 1],
        "block": [256, 1, 1],
        "shared_memory_bytes": 0,
        "tensor_maps": [],
        "maps_at": None,
    }
    assert config["binary"] == "kernel.cubin"
    assert config["build"] == "nvcc -cubin -arch=sm_90a --std=c++17 kernel.cu -o kernel.cubin"
    assert [each["role"] for each in config["arguments"]] == ["input", "workspace", "output"]
    evidence = json.loads((folder / "evidence.json").read_text())
    schema = json.loads((folder / "evidence.schema.json").read_text())
    jsonschema.validate(evidence, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**evidence, "report": {**evidence["report"], "challenger": "fast"}}, schema)


def test_samples_csv_of_an_export_has_every_sample(folder: Path) -> None:
    rows = [line.split(",") for line in (folder / "samples.csv").read_text().splitlines()[1:]]
    expected = [(name, process, len(timing.samples_us)) for name, process, timing in series(champion()[0])]
    assert len(expected) == 6
    assert len(rows) == sum(count for _, _, count in expected)
    assert rows[-1] == ["incumbent", "2", "3", "10.0"]


def test_export_and_report_contain_the_profile(folder: Path) -> None:
    summary = (folder / "profile_summary.md").read_text()
    assert "# faulty_cuda: profile of champion" in summary
    assert "| L2 hit rate | 50% | 25% | +25.0 points |" in summary
    assert "| L2 hit rate | 50% | 25% | +25.0 points |" in (folder / "report.md").read_text()
    assert profile_markdown(replace(champion()[0], report=None)) is None


def test_export_loader_launches_the_kernel_with_its_grid_and_block(folder: Path, cupy: SimpleNamespace) -> None:
    kernel = loaded(folder, "kernel").Kernel()
    x = array(np.arange(N))
    np.testing.assert_array_equal(kernel(x=x)["y"], 3 * x + 1)
    out = kernel.empty("y")
    assert kernel(x=x, y=out)["y"] is out
    assert Module.launches == [((1, 1, 1), (256, 1, 1), 0)] * 2


def test_export_loader_orders_launches_on_several_streams(folder: Path, cupy: SimpleNamespace) -> None:
    kernel = loaded(folder, "kernel").Kernel()
    for stream in (Stream(1), Stream(1), Stream(2), Stream(9, capturing=True), Stream(2), Stream(1)):
        cupy.cuda.get_current_stream = lambda stream=stream: stream
        kernel(x=array(np.arange(N)))
    assert len(Module.launches) == 6
    assert Stream.waits == [(2, 1), (1, 2)]


def test_export_loader_error_names_the_invalid_argument(folder: Path, cupy: SimpleNamespace) -> None:
    kernel = loaded(folder, "kernel").Kernel()
    x = array(np.arange(N))
    elsewhere = x.copy()
    elsewhere.device = SimpleNamespace(id=1)
    for wrong, error, text in (
        ({}, TypeError, "x is missing; inputs: x; outputs: y"),
        ({"x": None}, TypeError, "x is missing; inputs: x; outputs: y"),
        ({"x": x, "z": x}, TypeError, "z is not an argument"),
        ({"x": x, "N": 9}, TypeError, f"N is fixed: the kernel was compiled for N={N}, so omit it; inputs: x"),
        ({"x": np.arange(N)}, TypeError, "x must be a CuPy array of float32, not ndarray"),
        ({"x": array(x, "float16")}, TypeError, "x must be a CuPy array of float32, not one of float16"),
        ({"x": x[:9]}, ValueError, r"x must have shape \(256,\), not \(9,\)"),
        ({"x": array(np.arange(2 * N))[::2]}, ValueError, "x must be C-contiguous"),
        ({"x": elsewhere}, ValueError, "x must be on the kernel's device 0, not on device 1"),
        ({"x": array(np.arange(N + 1))[1:]}, ValueError, r"is not aligned to 16 bytes; pass x.copy\(\)"),
        ({"x": x, "y": x}, ValueError, "y overlaps x in memory"),
    ):
        with pytest.raises(error, match=text):
            kernel(**wrong)


@pytest.mark.parametrize(("built_for", "here", "runs"), [("sm_90a", "90", True), ("sm_90a", "100", False)])
def test_error_for_a_kernel_exported_for_another_gpu_contains_a_build_command(
    folder: Path, cupy: SimpleNamespace, built_for: str, here: str, runs: bool
) -> None:
    check = loaded(folder, "kernel")._check_architecture
    check("sm_86", "89", "nvcc")
    if runs:
        check(built_for, here, "nvcc")
        return
    with pytest.raises(RuntimeError, match="built for sm_90a, but this GPU is sm_100; build it again: nvcc"):
        check(built_for, here, "nvcc")
    with pytest.raises(RuntimeError, match="build it again"):
        check("sm_89", "86", "nvcc")
    return


def test_exported_pytorch_operator_checks_tensors_and_has_a_fake_implementation(
    folder: Path, cupy: SimpleNamespace
) -> None:
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    op = loaded(folder, "torch_op").op
    for wrong, error, text in (
        (torch.zeros(N), ValueError, "x must be on a CUDA device, not on cpu"),
        (torch.zeros(N, dtype=torch.float16), TypeError, "x must be a tensor of torch.float32, not torch.float16"),
        (torch.zeros(9), ValueError, r"x must have shape \(256,\), not \(9,\)"),
        (torch.zeros(2 * N)[::2], ValueError, "x must be contiguous"),
    ):
        with pytest.raises(error, match=text):
            op(wrong)
    with FakeTensorMode():
        out = op(torch.empty(N, device="cuda"))
    assert (tuple(out.shape), out.dtype, out.device.type) == ((N,), torch.float32, "cuda")


def test_exported_pytorch_operator_launches_on_the_current_stream(
    folder: Path, cupy: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests only the launch: the tensors are in host memory, and the device checks are disabled."""
    torch = pytest.importorskip("torch")
    streams: list[tuple[int, int | None]] = []
    device = nullcontext(SimpleNamespace(compute_capability="90", id=0))
    device.compute_capability, device.id = "90", 0  # type: ignore[attr-defined]
    cupy.cuda = SimpleNamespace(
        Device=lambda *_: device,
        ExternalStream=lambda *told: streams.append(told) or nullcontext(),
        get_current_stream=lambda: Stream(77),
    )
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=77))
    module = loaded(folder, "torch_op")
    monkeypatch.setattr(module, "_checked", lambda inputs: inputs[0].device)
    x = torch.arange(N, dtype=torch.float32)
    assert torch.equal(module._run(x), 3 * x + 1)
    assert streams == [(77, None)]
    with pytest.raises(ValueError, match=r"is not aligned to 16 bytes; pass x.clone\(\)"):
        module._run(torch.arange(N + 1, dtype=torch.float32)[1:])


def test_importing_evo_export_builds_no_evidence_serializer() -> None:
    """The service imports the export at its start. A serializer of all evidence takes a tenth of a second to build."""
    built = "from pydantic import TypeAdapter\nTypeAdapter.__init__ = lambda self, kind, **_: print(kind)\n"
    modules = "import evo.export.evidence, evo.export.runner_up"
    printed = subprocess.run([sys.executable, "-c", built + modules], check=True, capture_output=True, text=True).stdout
    assert "Evidence" not in printed

"""Tensor maps are declared by a family, encoded by the driver, passed by exports, and simulated on the host."""

import ctypes
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.export.compiled import Compiled
from evo.export.loader import tensor_map
from evo.family import Family, Launch, TensorMap
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.unit.family_document import edited
from tests.unit.test_cuda_export import Array, loaded
from tests.unit.views import view
from workers.backends import LaunchError
from workers.backends.cuda.launch import BoundKernel
from workers.build.kernel import Argument, Step, dynamic_shared_bytes

DEVICE = known("sm_90")
TILED: Config = {"PRODUCTS": "wgmma", "COPY": "tma", "STAGES": 3, "WARPS_N": 1, "BLOCK_N": 64, "BLOCK_M": 64}


class Driver:
    """A fake driver that records calls of its encoder of tensor maps."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.status = 0

    def cuTensorMapEncodeTiled(self, made: Any, kind: int, rank: Any, address: Any, *rest: Any) -> int:
        numbers = [tuple(each) if isinstance(each, ctypes.Array) else each for each in rest]
        place = ctypes.addressof(made._obj)
        self.calls.append((kind, rank.value, address.value, *numbers, place % 128))
        made._obj[:] = bytes([len(self.calls)]) * 128
        return self.status


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: made)
    tensor_map._encoder.cache_clear()
    return made


def document(**changes: Any) -> Family:
    declared = {"of": "x", "shape": ["ROWS", "COLS"], "box": ["8", "ITEMS * 32"], "swizzle": "128", **changes}
    return Family.from_document(edited("cuda.launch.tensor_maps", [declared]))


def launch(family: Family, **tunables: Any) -> Any:
    problem = family.problem("ROWS=5,COLS=1000", "cuda")
    return family.candidate({"BLOCK": 128, "ITEMS": 2, **tunables}, problem, DEVICE, Objective()).launch


def test_tensor_map_is_computed_from_problem_and_config() -> None:
    assert launch(document()).tensor_maps == (
        TensorMap(of="x", dtype="float16", shape=(5, 1000), box=(8, 64), swizzle=128),
    )
    assert launch(document(when="ITEMS == 1")).tensor_maps == ()


def test_tensor_map_boxes_of_fp8_gemm_have_128_columns() -> None:
    family = find("gemm_fp8").family
    problem = family.problem("M=2048,N=1024,K=1040", "cuda")
    tunables = family.implementation("cuda").tunables
    defaults = {each.name: each.values[each.default_index] for each in tunables}
    start = family.begin(problem, DEVICE)[-1]
    made = family.candidate({**defaults, **start}, problem, DEVICE, Objective()).launch
    assert made is not None
    assert [(each.of, each.dtype, each.shape, each.box, each.swizzle) for each in made.tensor_maps] == [
        ("a", "float8_e4m3", (2048, 1040), (128, 128), 128),
        ("b", "float8_e4m3", (1024, 1040), (64, 128), 128),
    ]


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"of": "factor"}, "of", "there is no `factor`"),
        ({"box": ["8"]}, "box", "must have one expression per axis of `shape` (2), not 1"),
        ({"shape": ["ROWS"] * 6, "box": ["1"] * 6}, "shape", "must have 1 to 5 expressions, one per axis, not 6"),
        ({"shape": ["ROWS", "TILE"]}, "shape[1]", "did you mean"),
        ({"shape": ["ROWS", "ROWS"]}, "shape[0]", "like `x` (shape "),
        (
            {"shape": ["ROWS * 250", "4"]},
            "shape[1]",
            "8 bytes long for this problem; its length must be a multiple of 16 bytes",
        ),
        ({"box": ["300", "64"]}, "box[0]", "`300` is 300 for this problem; a box extent must be from 1 to 256"),
        (
            {"box": ["8", "ITEMS * 64"]},
            "box[1]",
            "256 bytes wide; its width must be a multiple of 16 bytes, at most 128 bytes",
        ),
        ({"swizzle": "16", "box": ["8", "8"]}, "swizzle", "must be one of 0, 32, 64, 128"),
    ],
)
def test_error_names_the_invalid_key_of_a_tensor_map(change: Any, field: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        launch(document(**change))
    assert raised.value.field.endswith(f"cuda.launch.tensor_maps[0].{field}")
    assert reason in raised.value.reason


def test_tensor_map_is_encoded_with_the_innermost_axis_first(driver: Driver) -> None:
    made = tensor_map.encode(
        4096, of="k", dtype="bfloat16", shape=(6, 200, 128), box=(1, 48, 64), swizzle=128, l2_promotion=256
    )
    assert bytes(made) == b"\x01" * 128
    assert driver.calls == [
        (9, 3, 4096, (128, 200, 6), (256, 51200), (64, 48, 1), (1, 1, 1), 0, 3, 3, 0, 0),
    ]
    tensor_map.encode(4096, of="a", dtype="float8_e4m3", shape=(75, 208), box=(64, 128), swizzle=128)
    assert driver.calls[1] == (0, 2, 4096, (208, 75), (208,), (128, 64), (1, 1), 0, 3, 0, 0, 0), "a row has 208 bytes"
    with pytest.raises(tensor_map.TensorMapError, match="k is not aligned to 16"):
        tensor_map.encode(4100, of="k", dtype="bfloat16", shape=(6, 64), box=(1, 64))
    driver.status = 1
    x, one = Argument(name="x", role="input", dtype="float32", shape=(8, 32)), (1, 1, 1)
    mapped = Launch(grid=one, block=one, tensor_maps=(TensorMap(of="x", dtype="float32", shape=(8, 32), box=(8, 32)),))
    with pytest.raises(LaunchError, match=r"refuses a tensor map of x \(error 1\): shape \(8, 32\), box \(8, 32\)"):
        BoundKernel(0, mapped, [x], {"x": 4096}, 0)
    driver.status = 0
    bound = BoundKernel(0, mapped, [x], {"x": 4096}, 0)
    place = bound._parameters[1]
    assert place is not None
    assert ctypes.string_at(place, 128) == b"\x04" * 128, "tensor maps follow the arguments"


def test_exported_kernel_passes_its_tensor_maps(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = find("gemm").family
    problem = family.problem("M=64,N=64,K=128", "cuda")
    config: Config = {
        **{each.name: each.values[each.default_index] for each in family.implementation("cuda").tunables},
        **TILED,
    }
    search = view(family="gemm", problem=problem, device=replace(DEVICE, kind="cuda"))
    made = Compiled(search=search, family=family, source=b"", library=b"cubin").working_files(config)
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    assert "tensor_map.py" in made
    assert [each["of"] for each in json.loads(made["config.json"])["launch"]["tensor_maps"]] == ["a", "b"]
    passed: list[Any] = []
    monkeypatch.setitem(sys.modules, "cupy", stand_in(passed))
    loaded(tmp_path, "kernel").Kernel().launch({"a": 256, "b": 512, "bias": 768, "c": 1024})
    assert [int(each) for each in passed[:4]] == [256, 512, 768, 1024]
    assert [(each.size, each.tobytes()) for each in passed[4:]] == [(1, b"\x01" * 128), (1, b"\x02" * 128)]
    assert [call[2] for call in driver.calls] == [256, 512]


@pytest.mark.parametrize("given", [(49152,), (1024, 61440), (61440, 1024), (0,)])
def test_exported_kernel_allows_the_largest_shared_memory_of_its_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[int, ...]
) -> None:
    """With a static array, 49,152 dynamic bytes exceed the default limit of a function's shared memory."""
    first, *further = ({"grid": [1], "block": [32], "shared_memory_bytes": each, "tensor_maps": []} for each in given)
    described: dict[str, Any] = {"entry": "f", "binary": "kernel.cubin", "architecture": "sm_90", "build": ""}
    described |= {"arguments": [], "launch": {**first, "further": further}, "problem": {}, "config": {}}
    (tmp_path / "config.json").write_text(json.dumps(described))
    shutil.copy(Path(tensor_map.__file__).with_name("cuda_kernel.py"), tmp_path / "kernel.py")
    functions: list[Any] = []
    monkeypatch.setitem(sys.modules, "cupy", stand_in([], functions))
    loaded(tmp_path, "kernel").Kernel()
    assert {each.max_dynamic_shared_size_bytes for each in functions} == {max(given)}


def test_each_kernel_gets_the_largest_shared_memory_of_its_launches() -> None:
    def step(entry: str, size: int) -> Step:
        launch = Launch(grid=(1, 1, 1), block=(32, 1, 1), shared_memory_bytes=size)
        return Step(entry=entry, arguments=(), launch=launch)

    launches = [step("f", 1024), step("g", 0), step("f", 61440), step("f", 49152)]
    assert dynamic_shared_bytes(launches) == {"f": 61440, "g": 0}


def stand_in(passed: list[Any], functions: list[Any] | None = None) -> Any:
    class Function:
        max_dynamic_shared_size_bytes = 0

        def __init__(self) -> None:
            if functions is not None:
                functions.append(self)

        def __call__(self, grid: Any, block: Any, arguments: Any, *, shared_mem: int) -> None:
            passed.extend(arguments)

    return SimpleNamespace(
        ndarray=Array,
        RawModule=lambda path: SimpleNamespace(get_function=lambda entry: Function()),
        cuda=SimpleNamespace(
            Device=lambda *_: SimpleNamespace(compute_capability="90", id=0),
            get_current_stream=lambda: SimpleNamespace(ptr=0, is_capturing=lambda: False),
        ),
    )

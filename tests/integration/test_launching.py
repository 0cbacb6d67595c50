"""Launches beyond the driver's limits, or with arguments that do not match the kernel, are refused."""

from dataclasses import replace

import pytest

from evo.device import Device
from evo.device.estimate.target import known
from evo.family import Launch, TensorMap
from evo.trial.outcome import LaunchFailed, OverResources
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Unit
from workers.build.kernel import Argument, steps
from workers.build.launch_checks import Declared, Parameter, launch_refusal, read_declared

L4, H100 = known("NVIDIA L4"), known("NVIDIA H100 80GB HBM3")
X = Argument(name="x", role="input", dtype="float32", shape=(8,))
LAUNCH = Launch(grid=(1, 1, 1), block=(32, 1, 1))


def scalar(name: str, dtype: str) -> Argument:
    return Argument(name=name, role="scalar", dtype=dtype, value=1)


@pytest.fixture(scope="module")
def compiler() -> NvrtcCompiler:
    try:
        return NvrtcCompiler()
    except NoNvrtcError:
        pytest.skip("NVRTC is not installed")


def refusal(
    ptx: bytes, launch: Launch, arguments: tuple[Argument, ...], device: Device
) -> OverResources | LaunchFailed | None:
    (step,) = steps("f", arguments, launch)
    return launch_refusal(ptx, step, device)


def ptx(compiler: NvrtcCompiler, kernel: str, device: Device = H100) -> bytes:
    unit = Unit(source=f'extern "C" __global__ {kernel}', architecture=device.architecture, entry="f", language="cuda")
    made = compiler.compile(unit, timeout_s=60)
    assert isinstance(made, Artefact), made
    return made.ptx


@pytest.mark.parametrize("device", [known("sm_80"), L4, H100])
@pytest.mark.parametrize(
    ("launch", "resource"),
    [
        ({"block": (1024, 1, 1)}, None),
        ({"block": (1, 1024, 1)}, None),
        ({"block": (1, 1, 64)}, None),
        ({"block": (1025, 1, 1)}, "threads along x"),
        ({"block": (1, 1025, 1)}, "threads along y"),
        ({"block": (1, 1, 65)}, "threads along z"),
        ({"block": (1, 1, 128)}, "threads along z"),
        ({"grid": (2**31 - 1, 65535, 65535)}, None),
        ({"grid": (2**31, 1, 1)}, "blocks along x"),
        ({"grid": (1, 65536, 1)}, "blocks along y"),
        ({"grid": (1, 1, 65536)}, "blocks along z"),
    ],
)
def test_launch_limits_apply_to_each_axis(
    device: Device, launch: dict[str, tuple[int, int, int]], resource: str | None
) -> None:
    """The expected values are those of a real H100, which accepted and refused the same launches."""
    found = refusal(b"", replace(LAUNCH, **launch), (X,), device)  # type: ignore[arg-type]
    assert (found and isinstance(found, OverResources) and found.resource) == resource


@pytest.mark.parametrize(("capability", "most"), [(60, 4096), (70, 32764), (90, 32764)])
def test_parameter_size_limit_depends_on_the_architecture(capability: int, most: int) -> None:
    device = replace(L4, limits={**L4.limits, "compute_capability": float(capability)})
    many = tuple(replace(X, name=f"x{index}") for index in range(most // 8))
    assert refusal(b"", LAUNCH, many, device) is None
    found = refusal(b"", LAUNCH, (*many, X), device)
    assert isinstance(found, OverResources)
    assert (found.resource, found.limit) == ("parameter bytes", most)
    apart = (scalar("n", "int32"), X) * (most // 16 + 1)
    found = refusal(b"", LAUNCH, apart, device)
    assert isinstance(found, OverResources) and found.used == 16 * (most // 16 + 1), (
        "alignment gaps between parameters must count"
    )


def test_launch_bounds_and_parameters_are_parsed_from_ptx(compiler: NvrtcCompiler) -> None:
    kernel = (
        "void __launch_bounds__(128) f(const float *x, int n, double d, char c, float s) { if (n) *(float *)x = s; }"
    )
    declared = read_declared(ptx(compiler, kernel).decode(), "f")
    assert declared == Declared(
        parameters=(
            Parameter(kind="integer", size=8, alignment=8),
            Parameter(kind="integer", size=4, alignment=4),
            Parameter(kind="float", size=8, alignment=8),
            Parameter(kind="integer", size=1, alignment=1),
            Parameter(kind="float", size=4, alignment=4),
        ),
        most_threads=128,
    )
    assert read_declared("", "f") is None


@pytest.mark.parametrize(
    ("kernel", "launch", "said"),
    [
        ("void __launch_bounds__(128) f(const float *x) {}", {"block": (128, 1, 1)}, None),
        ("void __launch_bounds__(128) f(const float *x) {}", {"block": (64, 2, 2)}, "__launch_bounds__"),
        ("void __cluster_dims__(2, 1, 1) f(const float *x) {}", {"grid": (4, 1, 1)}, None),
        (
            "void __cluster_dims__(2, 1, 1) f(const float *x) {}",
            {"grid": (3, 1, 1)},
            "not a multiple of the cluster size 2",
        ),
        ("void __cluster_dims__(1, 2, 1) f(const float *x) {}", {"grid": (2, 3, 1)}, "along y"),
        ("void __cluster_dims__(16, 1, 1) f(const float *x) {}", {"grid": (16, 1, 1)}, "blocks of a cluster"),
        ("void __block_size__((64, 1, 1)) f(const float *x) {}", {}, "takes only blocks of (64, 1, 1)"),
        ("void __block_size__((32, 1, 1)) f(const float *x) {}", {"grid": (3, 1, 1)}, None),
    ],
)
def test_launch_beyond_the_launch_bounds_of_its_kernel_is_refused(
    compiler: NvrtcCompiler, kernel: str, launch: dict[str, tuple[int, int, int]], said: str | None
) -> None:
    found = refusal(ptx(compiler, kernel), replace(LAUNCH, **launch), (X,), H100)  # type: ignore[arg-type]
    assert (said is None) == (found is None), found
    assert said is None or said in repr(found)


@pytest.mark.parametrize(
    ("body", "bytes_given", "said"),
    [
        (
            "extern __shared__ float s[]; s[threadIdx.x] = *x; __syncthreads(); *x = s[1];",
            0,
            "`extern __shared__` array",
        ),
        ("extern __shared__ float s[]; s[threadIdx.x] = *x; __syncthreads(); *x = s[1];", 128, None),
        ("extern __shared__ float s[]; *x = 1;", 0, None),
        ("__shared__ float s[32]; s[threadIdx.x] = *x; __syncthreads(); *x = s[1];", 0, None),
    ],
)
def test_launch_without_the_dynamic_shared_memory_of_its_kernel_is_refused(
    compiler: NvrtcCompiler, body: str, bytes_given: int, said: str | None
) -> None:
    beside = 'extern "C" __global__ void g(float *x) { extern __shared__ int t[]; t[threadIdx.x] = 1; *x = t[0]; }'
    text = ptx(compiler, f"void f(float *x) {{ {body} }}\n{beside}")
    found = refusal(text, replace(LAUNCH, shared_memory_bytes=bytes_given), (X,), H100)
    assert (said is None) == (found is None), found
    assert said is None or said in repr(found)


@pytest.mark.parametrize(("device", "accepted"), [(known("sm_80"), False), (L4, False), (H100, True)])
def test_tensor_maps_are_refused_before_sm_90(compiler: NvrtcCompiler, device: Device, *, accepted: bool) -> None:
    kernel = "void f(float *x, const __grid_constant__ M m) { *x = m.bytes[0]; }"
    text = ptx(compiler, f'void g() {{}}\nstruct alignas(64) M {{ char bytes[128]; }};\nextern "C" __global__ {kernel}')
    maps = (TensorMap(of="x", dtype="float32", shape=(8,), box=(8,)),)
    found = refusal(text, replace(LAUNCH, tensor_maps=maps), (X,), device)
    assert (found is None) == accepted
    assert accepted or "has no tensor maps, which sm_90 introduced" in repr(found)


@pytest.mark.parametrize(
    ("parameters", "arguments", "said"),
    [
        ("const float *x, int n", (X, scalar("n", "int32")), None),
        ("const float *x, int n", (X, scalar("n", "int64")), None),
        ("const float *x, double a", (X, scalar("a", "float64")), None),
        ("const float *x", (X, scalar("n", "int32")), "has 1 parameters, but family.toml passes 2 (x, n)"),
        ("const float *x, int n, int m", (X, scalar("n", "int32")), "has 3 parameters"),
        ("const float *x, long n", (X, scalar("n", "int32")), "`n`, an integer or pointer of 4 bytes"),
        ("const float *x, float a", (X, scalar("a", "int32")), "takes a float of 4 bytes, but family.toml passes `a`"),
        ("const float *x, float a", (X, scalar("a", "float64")), "`a`, a float of 8 bytes"),
        ("const float *x, double a", (X, scalar("a", "float32")), "`a`, a float of 4 bytes"),
        ("int n, const float *x", (X, scalar("n", "int64")), "passes `x`, a pointer of 8 bytes"),
    ],
)
def test_arguments_that_do_not_match_the_kernel_parameters_are_refused(
    compiler: NvrtcCompiler, parameters: str, arguments: tuple[Argument, ...], said: str | None
) -> None:
    found = refusal(ptx(compiler, f"void f({parameters}) {{}}"), LAUNCH, arguments, H100)
    if said is None:
        assert found is None
    else:
        assert isinstance(found, LaunchFailed)
        assert said in found.reason

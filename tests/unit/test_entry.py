"""An invalid entry name is refused, and the error shows how to give the function a C name."""

from collections.abc import Callable

import pytest

from evo.errors import InvalidInput
from evo.family import Family
from evo.family.launch.entry import symbol_of
from tests.unit.family_document import document
from workers.backends.cuda.compilers.nvrtc import absent


def refusal(kind: str, entry: object) -> str:
    content = document()
    content[kind]["entry"] = entry
    with pytest.raises(InvalidInput) as raised:
        Family.from_document(content)
    assert raised.value.field == f"family.toml: {kind}.entry"
    return raised.value.reason


@pytest.mark.parametrize(
    ("kind", "entry", "says"),
    [
        ("cpu", "scale<4>", 'entry = "scale_4"'),
        ("cpu", "lib::scale", 'extern "C" void lib_scale('),
        ("cpu", "lib::scale<float, 4>", "{ lib::scale<float, 4>(x, factor, partial, out); }"),
        ("cuda", "lib::scale", 'Write `extern "C"` before its `__global__`'),
        ("cuda", "scale<<<1, 2>>>", 'write entry = "scale"'),
        ("cuda", "scale<4>(x, out)", 'write entry = "scale<4>"'),
        ("cuda", "scale<4><<<1, 2>>>(x)", 'write entry = "scale<4>"'),
        ("cuda", "scale(x, out)", 'write entry = "scale"'),
        ("cpu", " scale", 'write entry = "scale"'),
        ("cpu", "scale;", 'write entry = "scale"'),
        ("cpu", "my scale", 'write only the name, as the source defines it, e.g. "my_kernel"'),
        ("cpu", "9lives", "write only the name"),
        ("cpu", "s" * 129, "write only the name"),
        ("cpu", "", "must be the name of the function to call, not ''"),
        ("cpu", 3, "must be the name of the function to call, not 3"),
        ("cpu", ["scale"], "must be the name of the function to call"),
    ],
)
def test_error_about_an_entry_that_is_not_a_c_identifier_states_the_remedy(kind: str, entry: object, says: str) -> None:
    assert says in refusal(kind, entry)


@pytest.mark.parametrize("entry", ["scale<float>", "scale<float, 4>", "lib::scale<TILE * 2, std::pair<int, int>>"])
def test_cuda_entry_may_be_a_template_instance(entry: str) -> None:
    content = document()
    content["cuda"]["entry"] = entry
    assert Family.from_document(content).implementation("cuda").entry == entry


PTX = ".visible .entry _Z5scaleIfLi4EEvPKT_PS0_(\n.visible .entry _Z7rescaleIfEvPT_(\n.visible .entry scale(\n"


@pytest.mark.parametrize(
    ("entry", "symbol"),
    [
        ("scale<float, 4>", "_Z5scaleIfLi4EEvPKT_PS0_"),
        ("lib::rescale<float>", "_Z7rescaleIfEvPT_"),
        ("scale", "scale"),
        ("absent<int>", "absent<int>"),
    ],
)
def test_symbol_of_a_template_instance_is_found_in_ptx(entry: str, symbol: str) -> None:
    assert symbol_of(entry, PTX) == symbol


def test_symbol_among_several_template_instances_is_not_guessed() -> None:
    assert symbol_of("scale<float>", PTX + ".entry _Z5scaleIdEvPT_(") == "scale<float>"


def test_suggested_entry_has_the_parameters_of_the_family() -> None:
    content = document()
    content["problem"]["dtype"] = {"type": "choice", "choices": ["float32"], "default": "float32"}
    for argument in content["arguments"]:
        argument["dtype"] = "float32"
    content["cpu"]["entry"] = "scale<8>"
    with pytest.raises(
        InvalidInput, match=r"void scale_8\(const float \*x, float factor, float \*partial, float \*out\)"
    ):
        Family.from_document(content)


def test_error_for_a_missing_entry_suggests_the_kernels_of_the_binary(compiled: Callable[..., str]) -> None:
    assert 'write `extern "C"` before `__global__`, or set entry = "_Z5scalePf"' in absent(
        "scale", compiled("_Z5scalePf", "other")
    )
    instances = absent("scale", compiled("_Z5scaleIfEvPT_", "_Z5scaleIdEvPT_"))
    assert 'set entry = "_Z5scaleIfEvPT_" or entry = "_Z5scaleIdEvPT_" in family.toml' in instances
    assert "extern" not in instances
    assert 'entry = "scale2"' in absent("scale", compiled("scale2"))
    assert 'extern "C" __global__ void scale(' in absent("scale", "ptxas info : 0 bytes gmem")
    assert "does not report the resources" in absent("scale", compiled("scale"))


@pytest.fixture
def compiled() -> Callable[..., str]:
    return lambda *names: "\n".join(f"ptxas info : Compiling entry function '{name}' for 'sm_89'" for name in names)

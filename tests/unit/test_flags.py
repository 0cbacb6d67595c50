"""Reserved compiler flags of a family are refused in every spelling, and other flags are accepted."""

import re

import pytest

from evo.device import DeviceKind
from evo.errors import InvalidInput
from evo.family.source.flags import (
    anchored,
    check_flags,
    check_flags_of_macros,
    check_optimised,
    header_folders,
    linked_files,
)

TAKING_OVER: dict[DeviceKind, list[list[str]]] = {
    "cpu": [
        *(["-o", "kernel.so"], ["-oelsewhere.so"], ["--output=x"], ["-openmp"], ["-Wl,-o,x"], ["-Xlinker", "-o"]),
        *(["-c"], ["--compile"], ["-S"], ["--assemble"], ["-E"], ["--preprocess"], ["-fsyntax-only"], ["-r"]),
        *(["-x", "c++"], ["-xc"], ["--language=c++"], ["-static"], ["-m32"], ["--target=arm-linux"], ["-target", "x"]),
        *(["-M"], ["-MD"], ["-MFdeps"], ["-Wp,-MD,deps"], ["--dependencies"], ["@more"]),
        *(["-Wl,@more"], ["-Wp,@more"], ["-Xlinker", "@more"], ["-Xpreprocessor", "@more"], ["-Xassembler", "@more"]),
        *(["-specs=mine"],),
        *(["-fplugin=mine.so"], ["-B/opt/bin"], ["-save-temps"], ["-dM"], ["--help"], ["-###"], ["-Wa,-o,x"]),
        *(
            ["other.c"],
            ["-"],
            ["-O2", "more.cpp"],
            ["-fsanitize=address"],
            ["-fsanitize=undefined,float-cast-overflow"],
        ),
        *(["-pg"], ["--coverage"], ["-fprofile-generate"], ["-fprofile-arcs"], ["-finstrument-functions"]),
        *(["-mabi=ms"], ["-mabi=ilp32"], ["-fwhole-program"]),
        *(["-O0"], ["-g", "-O0"], ["-Og"], ["-O0", "-O2"], ["--optimize=0"]),
    ],
    "cuda": [
        *(["-arch=sm_80"], ["-arch", "sm_80"], ["--gpu-architecture=sm_80"], ["--gpu-architecture", "compute_80"]),
        *(["-code=sm_80"], ["-gencode=arch=compute_80,code=sm_80"], ["--generate-code", "arch=compute_80"]),
        *(["-Xptxas", "-arch=sm_80"], ["-Xptxas=-arch=sm_80"], ["--ptxas-options=--gpu-name=sm_80"]),
        *(["--ptxas-options", "-arch=sm_80"], ["-dc"], ["--device-c"], ["-rdc=true"], ["-dlto"], ["-ptx"], ["-c"]),
        *(["--relocatable-device-code=true"], ["--fdevice-syntax-only"], ["-fdevice-syntax-only"], ["-optix-ir"]),
        *(["-o", "x"], ["-pch"], ["--create-pch=x"], ["--use-pch=x"], ["-time=x"], ["--fdevice-time-trace=x"]),
        *(["-Xcompiler", "@more"], ["-Xcompiler=-O2,@more"], ["--compiler-options=@more"], ["-Xptxas=@more"]),
        *(["other.cu"], ["@more"], ["-x", "cu"], ["-default-device", "-arch=sm_80"]),
        *(["-G"], ["--device-debug"], ["-lineinfo", "-G"], ["-O0"], ["--dopt=off"], ["--Ofast-compile=max"]),
        *(["-Xptxas", "-O0"], ["-Xptxas=-O0"], ["--ptxas-options=-g"], ["-Xptxas", "--opt-level=0"]),
        *(["-D__CUDA_ARCH__=800"], ["-U", "__CUDA_ARCH__"], ["--define-macro=__CUDA_ARCH_LIST__=800"]),
    ],
}
HARMLESS: dict[DeviceKind, list[list[str]]] = {
    "cpu": [
        *(
            ["-ffast-math"],
            ["-O2"],
            ["-g"],
            ["-O1"],
            ["-fopenmp"],
            ["-march=x86-64-v3"],
            ["-std=gnu17"],
            ["-I", "include"],
            ["-Iinclude"],
        ),
        *(["-DX=1"], ["-D", "X"], ["-DM"], ["-D-c"], ["-lm"], ["-l", "m"], ["-L.", "-lthing"], ["-include", "x.h"]),
        *(["thing.o"], ["libthing.a"], ["-Wl,-z,now"], ["-funroll-loops"], ["-Wall"], ["-mavx2"], ["-pthread"]),
        *(["-fprofile-use=x.profdata"], ["-fno-sanitize=all"], ["-mabi=lp64"], ["-fvisibility=hidden"], ["-pipe"]),
    ],
    "cuda": [
        *(["-use_fast_math"], ["--maxrregcount=64"], ["-maxrregcount", "64"], ["-lineinfo"], ["-g"], ["-std=c++20"]),
        *(["-Xptxas", "-O1"], ["--ptxas-options=-v"], ["-rdc=false"], ["-I", "include"], ["--include-path=include"]),
        *(["-DX=1"], ["-D", "X"], ["-ftz=true"], ["--pre-include=x.h"], ["-include", "x.h"], ["-w"], ["-minimal"]),
    ],
}


@pytest.mark.parametrize(("kind", "flags"), [(kind, flags) for kind in TAKING_OVER for flags in TAKING_OVER[kind]])
def test_reserved_compiler_flags_are_refused_with_the_reason(kind: DeviceKind, flags: list[str]) -> None:
    with pytest.raises(InvalidInput, match=r"`.+` .*(cannot be a flag|is a file, not a flag)") as refused:
        check_flags(flags, kind, "family.toml: k.flags")
        check_optimised(flags, kind, "family.toml: k.flags")
    assert refused.value.field.startswith("family.toml: k.flags[")


@pytest.mark.parametrize(("kind", "flag"), [("cpu", "-O0"), ("cuda", "-G"), ("cuda", "-Xptxas=-O0")])
def test_flag_that_turns_off_optimisations_is_refused_in_new_families_only(kind: DeviceKind, flag: str) -> None:
    check_flags(["-g", flag], kind, "flags")
    with pytest.raises(InvalidInput, match=f"`{flag}` cannot be a flag .* turns off optimisations, .* remove it") as e:
        check_optimised(["-g", flag], kind, "flags")
    assert e.value.field == "flags[1]"


@pytest.mark.parametrize(("kind", "flags"), [(kind, flags) for kind in HARMLESS for flags in HARMLESS[kind]])
def test_error_names_the_reserved_flag_after_accepted_flags(kind: DeviceKind, flags: list[str]) -> None:
    check_flags(flags, kind, "flags")
    check_optimised(flags, kind, "flags")
    with pytest.raises(InvalidInput) as refused:
        check_flags([*flags, *next(iter(TAKING_OVER[kind]))], kind, "flags")
    assert refused.value.field == f"flags[{len(flags)}]"


def test_error_for_an_option_and_value_in_one_flag_shows_two_flags() -> None:
    with pytest.raises(InvalidInput, match='write two flags, "-I", "include"'):
        check_flags(["-I include"], "cpu", "flags")
    check_flags(['-DTEXT="a b"'], "cpu", "flags")


def test_flag_with_a_space_in_its_folder_is_accepted() -> None:
    check_flags(["-Imy headers", "-Lmy libraries", "-isystemmy headers"], "cpu", "flags")
    with pytest.raises(InvalidInput, match='write two flags, "-Iinclude", "-O3"'):
        check_flags(["-Iinclude -O3"], "cpu", "flags")


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("flags", [["-D"], ["-I"], ["-O2", "-include"], ["-U"], ["-L"], ["-isystem"], ["-l"]])
def test_compiler_option_without_its_value_is_refused(kind: DeviceKind, flags: list[str]) -> None:
    with pytest.raises(InvalidInput, match="must have a value") as refused:
        check_flags(flags, kind, "flags")
    assert refused.value.field == f"flags[{len(flags) - 1}]"


@pytest.mark.parametrize("flags", [["--threads", "4"], ["-Werror", "all-warnings"], ["-ccbin", "g++"]])
def test_error_for_an_unknown_option_with_a_separate_value_shows_the_joined_form(
    flags: list[str],
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"write `{flags[0]}={flags[1]}`")):
        check_flags(flags, "cuda", "flags")
    check_flags([f"{flags[0]}={flags[1]}"], "cuda", "flags")


DEFINING = (
    *(["-DT=8"], ["-DT"], ["-D", "T=8"], ["-D", "T(x)=x"], ["-UT"], ["-U", "T"], ["--define-macro=T=8"]),
    *(["--undefine-macro", "T"], ["-Wp,-DT=8"], ["-Wp,-D,T=8"], ["-Wp,-UT"], ["-Xpreprocessor", "-DT=8"]),
)


@pytest.mark.parametrize("flags", DEFINING)
def test_flag_that_defines_the_macro_of_a_tunable_is_refused(flags: list[str]) -> None:
    with pytest.raises(InvalidInput, match="T is a tunable, and kernel-evo defines this macro") as refused:
        check_flags_of_macros(["-O2", *flags], {"T": "tunable", "N": "problem field"}, "flags")
    assert refused.value.field == "flags[1]"
    check_flags_of_macros(flags, {"TT": "tunable", "N": "problem field"}, "flags")


def test_relative_paths_in_flags_are_resolved_in_the_family_folder() -> None:
    flags = ("-Iinclude", "-I", "more", "-I/abs", "--include-path=inc", "-Llib", "-lthing", "own.a", "-DX=include")
    assert anchored(flags, "/family") == (
        *("-I/family/include", "-I", "/family/more", "-I/abs", "--include-path=/family/inc"),
        *("-L/family/lib", "-lthing", "/family/own.a", "-DX=include"),
    )


def test_include_folders_and_linked_files_are_parsed_from_flags() -> None:
    assert header_folders(("-Ia", "-isystem", "b", "-iquote=c", "-Ld", "-idiraftere", "--include-path=f")) == (
        *("a", "b", "c", "e", "f"),
    )
    files = linked_files(("-L/lib", "-lone", "-l:two.a", "/x/three.o", "-fprofile-use=/x/four", "-Wl,-T,/x/five"))
    assert {"/lib/libone.a", "/lib/libone.so", "/lib/two.a", "/x/three.o", "/x/four", "/x/five"} <= set(files)


@pytest.mark.parametrize(
    ("flag", "written"),
    [
        ("-DA=1 -DB=2", 'two flags, "-DA=1", "-DB=2"'),
        ("-O3 -ffast-math", 'two flags, "-O3", "-ffast-math"'),
        ("-march=native -mtune=native -g", '3 flags, "-march=native", "-mtune=native", "-g"'),
        ("-DT=unsigned int -lm", 'two flags, "-DT=unsigned int", "-lm"'),
    ],
)
def test_several_compiler_options_in_one_flag_are_refused(flag: str, written: str) -> None:
    with pytest.raises(InvalidInput, match=f"as one flag; write {re.escape(written)}$"):
        check_flags([flag], "cpu", "family.toml: cpu.flags")


@pytest.mark.parametrize(
    "flag", ["-DT=unsigned int", "-DA=x - 1", "-DA=x -1", '-DTEXT="a -b"', "-DC='", "-I./one -two", "-Wl,-z,now"]
)
def test_values_of_compiler_flags_may_contain_spaces(flag: str) -> None:
    check_flags([flag], "cpu", "family.toml: cpu.flags")

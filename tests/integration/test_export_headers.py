"""The headers that a source includes are exported with the source, and the export compiles."""

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from evo.errors import InvalidInput
from evo.export.compiled import Compiled
from evo.export.headers import MOST_BYTES, flags_at, laid_out, pack_headers, unpack_headers
from evo.messages.view import SearchView
from templates.registry import Package, find
from tests.unit.views import view
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.build import Artefact
from workers.build.cache import Cache
from workers.build.cached import compile_cached
from workers.build.families import Families
from workers.build.own_headers import contents, own_headers

FAMILY = """
name = "spread"
[problem.N]
type = "int"
default = 8
[[arguments]]
name = "x"
role = "input"
shape = ["N"]
dtype = "int32"
[[arguments]]
name = "out"
role = "output"
shape = ["N"]
dtype = "int32"
rel_l2 = 0
max_abs = 0
[[cases]]
name = "nominal"
inputs = "normal"
[cpu]
source = "src/kernel.c"
entry = "spread"
flags = ["-Ivendor", "-isystem", "{outside}", "-I/usr/include", "-Lvendor", "{number}"]
[cpu.tunables.STEP]
values = [1, 2]
default = 1
"""

SOURCE = """
#include "../common/deep/a.h"
#include "beside.h"
#include "at_root.h"
#include <parallel.h>
#include <vendored.h>
#include <outside.h>
#include <stdint.h>
int linked(void);
void spread(const int32_t *x, int32_t *out) {
    for (int i = 0; i < N; i += STEP)
        for (int j = i; j < i + STEP; j++) out[j] = x[j] + A + BESIDE + ROOT + VENDORED + OUTSIDE + linked();
}
"""


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Return a family with a header in every folder to which an include directive may refer."""
    root, outside = tmp_path / "spread", tmp_path / "out side"
    texts = {
        root / "family.toml": FAMILY.format(outside=outside, number="vendor/linked.o"),
        root / "reference.py": "",
        root / "src" / "kernel.c": SOURCE,
        root / "src" / "beside.h": "#define BESIDE 10\n",
        root / "at_root.h": "#define ROOT 100\n",
        root / "common" / "deep" / "a.h": '#include "../b.h"\n',
        root / "common" / "b.h": "#define A 1\n",
        root / "common" / "unused.h": "#define UNUSED 1\n",
        root / "vendor" / "vendored.h": "#define VENDORED 1000\n",
        outside / "outside.h": '#include "more/inner.h"\n',
        outside / "more" / "inner.h": "#define OUTSIDE 10000\n",
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    compiler = find_compiler()
    made = [*compiler, "-fPIC", "-x", "c", "-", "-c", "-o", str(root / "vendor" / "linked.o")]
    subprocess.run(made, input=b"int linked(void) { return 100000; }", check=True)
    return find(str(root))


def exported(package: Package, tmp_path: Path) -> Compiled:
    """Export twice, and return the second export, whose headers come from the cache."""
    copy, cache, compiler = (
        Families(tmp_path / "copies").add(package),
        Cache(tmp_path / "cache"),
        CCompiler(find_compiler()),
    )
    source = "#define N 8\n#define STEP 2\n" + SOURCE
    unit = copy.unit("cpu", source, "x86_64")
    for _ in range(2):
        made = compile_cached(compiler, cache, unit, timeout_s=60)
        assert isinstance(made, Artefact), made
    headers = contents(own_headers(made.reads or (), unit))
    search: SearchView = view(family="spread", problem={"N": 8})
    packed = unpack_headers(pack_headers(headers))
    return Compiled(search=search, family=package.family, source=source.encode(), library=made.binary, headers=packed)


def test_exported_source_compiles_without_the_family_folder(package: Package, tmp_path: Path) -> None:
    export = exported(package, tmp_path)
    assert set(export.headers) == {
        "family/src/beside.h",
        "family/at_root.h",
        "family/common/deep/a.h",
        "family/common/b.h",
        "family/include/parallel.h",
        "family/vendor/vendored.h",
        "family/vendor/linked.o",
        "1/outside.h",
        "1/more/inner.h",
    }
    for folder in ("spread", "out side", "copies", "cache"):
        shutil.rmtree(tmp_path / folder)
    there = tmp_path / "elsewhere"
    for name, content in export.working_files({"STEP": 2}).items():
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_bytes(content)
    (there / "libkernel.so").unlink()
    build = export.build_command({"STEP": 2})
    assert str(tmp_path) not in build
    subprocess.run(build, shell=True, check=True, cwd=there)
    assert (there / "libkernel.so").read_bytes()


def test_export_creates_the_source_folder_for_relative_includes() -> None:
    headers = {"family/common.h": b""}
    assert laid_out(headers, "src/kernel.c") == {"headers/family/common.h": b"", "headers/family/src/.keep": b""}
    assert laid_out(headers, "kernel.c") == {"headers/family/common.h": b""}


def test_source_without_headers_exports_no_header_folder_or_flag() -> None:
    assert laid_out({}, "src/kernel.c") == {}
    assert flags_at({}, ("-Iown", "-O2"), "src/kernel.c") == ("-Iown", "-O2")


def test_include_flags_point_to_the_folders_of_the_export() -> None:
    flags = ("-Iown", "-I", "/usr/include", "-isystem/opt/them", "-L", "lib", "-DX=1")
    headers = {"family/own/a.h": b"", "2/b.h": b""}
    assert flags_at(headers, flags, "kernel.c") == (
        "-Iheaders/family",
        "-Iheaders/family/include",
        "-Iheaders/family/own",
        *("-I", "/usr/include", "-isystemheaders/2"),
        *("-L", "headers/family/lib", "-DX=1"),
    )


def test_missing_or_too_large_headers_are_not_stored(tmp_path: Path) -> None:
    assert contents({"family/a.h": str(tmp_path / "gone.h")}) == {}
    large = tmp_path / "large.h"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert contents({"family/large.h": str(large)}) == {}


@pytest.mark.parametrize(
    "name",
    ["../a.h", "/etc/passwd", "family/../../a.h", "family//a.h", "a.h", "other/a.h", "family/a\\b.h", "family/\x1b.h"],
)
def test_header_archive_names_outside_the_known_folders_are_refused(name: str) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, b"")
    with pytest.raises(InvalidInput, match="headers"):
        unpack_headers(made.getvalue())


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"no ZIP at all" * 100])
def test_invalid_header_archive_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="headers"):
        unpack_headers(content)


def test_header_archive_that_unpacks_beyond_the_limit_is_refused() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("family/a.h", b"\0" * (MOST_BYTES + 1))
    with pytest.raises(InvalidInput, match="more than"):
        unpack_headers(made.getvalue())

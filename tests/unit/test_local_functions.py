"""Imports copy the functions of local modules that a Triton kernel uses."""

import re
from pathlib import Path

import pytest

from evo.cli.files.imported import write_imported
from evo.cli.files.local_functions import with_local_functions
from evo.errors import InvalidInput
from evo.family.source.triton.source import sliced

HEAD = "import triton\nimport triton.language as tl\n"
HELPERS = f"""{HEAD}
import os
TWICE: tl.constexpr = 2.0

@triton.jit
def inner(x):
    return x * TWICE

@triton.autotune(configs=[], key=[])
@triton.jit
def scale(x):
    return inner(x)

def plain(x):
    return os.getcwd()
"""
KERNEL = """
@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, {call}(tl.load(x_ptr + offsets)))
"""


def source(place: Path, imports: str, call: str = "scale") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    (place.parent / "helpers.py").write_text(HELPERS)
    place.write_text(f"{HEAD}{imports}\n{KERNEL.format(call=call)}")
    return place


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from helpers import scale", "scale"),
        ("from helpers import scale as twice", "twice"),
        ("from helpers import (\n    plain as other,\n    scale,\n)", "scale"),
        ("from helpers import *", "scale"),
        ("from .helpers import scale", "scale"),
        ("from package.helpers import scale", "scale"),
    ],
)
def test_functions_of_a_local_module_are_copied_into_the_family(tmp_path: Path, imports: str, call: str) -> None:
    file = source(tmp_path / "package" / "k.py", imports, call)
    folder, draft = write_imported(file, tmp_path / "family", reference=None)
    kernel = sliced((folder / "k.py").read_text(), "kernel", "k.py")
    names: dict[str, object] = {}
    exec(compile(kernel.replace("@triton.jit", ""), "k.py", "exec"), _Stub.names(names))
    assert {call, "inner", "TWICE", "kernel"} <= names.keys()
    assert "plain" not in names
    assert not [note for note in draft.notes if "helpers" in note]


class _Stub:
    """A fake Triton module for the execution of definitions."""

    def __getattr__(self, _: str) -> "_Stub":
        return self

    @staticmethod
    def names(found: dict[str, object]) -> dict[str, object]:
        def imported(*_: object, **__: object) -> _Stub:
            return _Stub()

        found["__builtins__"] = {"__import__": imported}
        return found


def test_functions_imported_through_several_modules_are_copied(tmp_path: Path) -> None:
    (tmp_path / "middle.py").write_text(
        f"{HEAD}from helpers import scale\n@triton.jit\ndef more(x):\n    return scale(x)\n"
    )
    text, notes = with_local_functions(
        (file := source(tmp_path / "k.py", "from middle import more", "more")).read_text(), file
    )
    assert notes == ()
    assert [text.count(f"def {name}(") for name in ("inner", "scale", "more", "plain")] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("imports", "call", "words"),
    [
        (
            "import helpers",
            "helpers.scale",
            r"helpers\.py is used as the module `helpers`: import its functions by name",
        ),
        ("from . import helpers", "helpers.scale", r"helpers\.py is used as the module `helpers`"),
        ("from elsewhere import scale", "scale", r"scale is imported from elsewhere: copy it into k\.py"),
        ("from helpers import plain", "plain", r"plain of helpers\.py is neither a kernel nor a constant"),
        (
            "from helpers import scale\n@triton.jit\ndef inner(x):\n    return x",
            "scale",
            r"helpers\.py also defines inner",
        ),
    ],
)
def test_import_statement_that_cannot_be_copied_is_noted(tmp_path: Path, imports: str, call: str, words: str) -> None:
    file = source(tmp_path / "k.py", imports, call)
    _, draft = write_imported(file, tmp_path / "family", entries=["kernel"], reference=None)
    assert any(re.search(words, note) for note in draft.notes), draft.notes


def test_modules_used_only_by_host_code_are_not_copied(tmp_path: Path) -> None:
    file = source(tmp_path / "k.py", "import helpers\nfrom helpers import plain\nimport elsewhere", "tl.exp")
    assert with_local_functions(file.read_text(), file) == (file.read_text(), ())


def test_circular_imports_of_local_modules_are_noted(tmp_path: Path) -> None:
    file = source(tmp_path / "k.py", "from other import scale")
    (tmp_path / "other.py").write_text(
        f"{HEAD}from k import kernel\n@triton.jit\ndef scale(x):\n    return kernel(x)\n"
    )
    _, notes = with_local_functions(file.read_text(), file)
    assert any("import each other" in note for note in notes)


def test_local_module_with_invalid_python_is_refused(tmp_path: Path) -> None:
    file = source(tmp_path / "k.py", "from helpers import scale")
    for content in (b"\xff\xfe", b"def scale(:"):
        (tmp_path / "helpers.py").write_bytes(content)
        with pytest.raises(InvalidInput, match="helpers"):
            with_local_functions(file.read_text(), file)

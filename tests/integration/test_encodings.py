"""Files in any encoding are read, or refused with a command that converts them."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from evo.cli.files.imported import write_imported
from evo.errors import InvalidInput, RenderError
from templates import registry
from templates.render import check
from tests.unit.family_document import write_family
from tests.unit.test_importing import CONVOLUTION, REFERENCE, imported


@pytest.mark.parametrize(
    ("start", "encoding"),
    [
        ("from __future__ import annotations\nimport numpy\nnp = numpy\n", "utf-8"),
        ('"""An answer."""\nfrom __future__ import annotations\n', "utf-8"),
        ("", "utf-8-sig"),
        ("# coding: latin-1\n# M\xfcller\n", "latin-1"),
        ("#!/usr/bin/env python\n# -*- coding: utf-16 -*-\n", "ascii"),
        ("import helper\nfrom further import x\nassert x == helper.x == 1\n", "utf-8"),
    ],
    ids=["future import", "docstring", "byte order mark", "latin-1", "cookie on line 2", "local modules"],
)
def test_reference_files_in_any_declared_encoding_are_imported(tmp_path: Path, start: str, encoding: str) -> None:
    (tmp_path / "helper.py").write_text("x = 1\n")
    (tmp_path / "further.py").write_text("from helper import x\n")
    text = start + REFERENCE.replace("import numpy as np\n", "" if "np = " in start else "import numpy as np\n")
    content = text.encode(encoding) if "utf-16" not in start else text.replace("utf-16", "cp1252").encode()
    (tmp_path / "given.py").write_bytes(content)
    place = imported(tmp_path, reference=f"{tmp_path / 'given.py'}:conv")
    command = [sys.executable, "-c", "import reference"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in place.iterdir()} - {"__pycache__"} == {
        *("family.toml", "reference.py", "conv.cpp"),
        *(("helper.py", "further.py") if "helper" in start else ()),
    }


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["conv.cpp", "given.py"])
def test_error_for_importing_a_non_utf8_file_contains_a_conversion_command(
    tmp_path: Path, name: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"conv.cpp": f"// M\xfcller\n{CONVOLUTION}", "given.py": f"# M\xfcller\n{REFERENCE}"}
    for file, text in files.items():
        Path(file).write_bytes(text.encode(encoding if file == name else "utf-8"))
    with pytest.raises(InvalidInput, match="save it as UTF-8") as refused:
        write_imported(Path("conv.cpp"), Path("conv"), reference="given.py:conv")
    assert not Path("conv").exists()
    command = str(refused.value).partition("`")[2].partition("`")[0]
    subprocess.run(command, shell=True, check=True)
    place, _ = write_imported(Path("conv.cpp"), Path("conv"), reference="given.py:conv")
    assert all("M\xfcller" in (place / file).read_text() for file in ("conv.cpp", "reference.py"))


@pytest.mark.parametrize("name", ["family.toml", "kernel.c.j2"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_error_for_a_non_utf8_family_file_contains_a_conversion_command(
    tmp_path: Path, name: str, encoding: str
) -> None:
    folder = write_family(tmp_path / "scale")
    mark = "# M\xfcller\n" if name == "family.toml" else "// M\xfcller\n"
    (folder / name).write_bytes((mark + (folder / name).read_text()).encode(encoding))
    with pytest.raises((InvalidInput, RenderError), match="save it as UTF-8") as refused:
        check(registry.find(str(folder)), "cpu")
    command = str(refused.value).partition("`")[2].partition("`")[0]
    subprocess.run(command, shell=True, check=True, cwd=folder.parent)
    check(registry.find(str(folder)), "cpu")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"{}"), "is compressed with gzip; decompress it, e.g. `gzip -dc < "),
        (b"\x7fELF\x00\xff\xfe\x01", "and NUL bytes; it is not a text file"),
    ],
    ids=["gzip", "binary"],
)
def test_error_for_a_binary_recording_names_the_file_type(
    tmp_path: Path, content: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=re.escape(message)):
        registry.find("r.json")

"""Unpacking a packed family gives the same files, and malicious archives are refused."""

import io
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from evo.client import ForeignService, ServiceAway, ServiceError, ServiceUnreachable
from evo.errors import EvoError, InvalidInput
from evo.export.headers import unpack_headers
from evo.messages.job import FamilyRef
from templates import bundle, registry
from templates.bundle import digest_of, family_of, pack, unpack
from workers.build.families import Families, FamilyMismatch

FAULTY = Path(__file__).parent.parent / "data" / "families" / "faulty"
ENOUGH = {"family.toml": b'name = "x"', "reference.py": b""}


def zipped(files: dict[str, bytes], change: Callable[[zipfile.ZipInfo], None] = lambda entry: None) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (ENOUGH | files).items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            change(entry)
            archive.writestr(entry, content, entry.compress_type)
    return packed.getvalue()


def test_unpacked_family_has_the_digest_of_its_folder() -> None:
    package = registry.find(str(FAULTY))
    files = unpack(pack(package))
    assert digest_of(files) == package.digest
    assert family_of(files).document == package.family.document
    assert pack(package) == pack(package)
    assert not any(name.startswith("include/") for name in files)


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py",
        "/etc/passwd",
        "a/../../evil.py",
        "a//b",
        "./a",
        "a\\..\\evil.py",
        "C:/evil.py",
        ".hidden",
        "sub/.hidden/a",
        "__pycache__/reference.cpython-311.pyc",
        "reference.pyc",
        "backup~",
        "new\nline",
        "ключ.py",
        "a" * 101,
        "/".join("abcdefghij" * 11),
        "REFERENCE.py",
        "reference.py/inside",
    ],
)
def test_family_bundle_with_invalid_file_names_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="bundle"):
        unpack(zipped({name: b"evil"}))


def test_bytecode_in_a_family_bundle_is_refused_as_bytecode() -> None:
    for name in ("reference.pyc", "__pycache__/reference"):
        with pytest.raises(InvalidInput, match="is Python's bytecode cache; remove it"):
            unpack(zipped({name: b""}))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_family_bundle_with_links_or_devices_is_refused(kind: int) -> None:
    def special(entry: zipfile.ZipInfo) -> None:
        entry.external_attr = (kind | 0o777) << 16

    with pytest.raises(InvalidInput, match="not a regular file"):
        unpack(zipped({"link": b"/etc/passwd"}, special))


def test_family_bundle_that_unpacks_beyond_the_limits_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unpacks to more than 64 MiB"):
        unpack(zipped({f"zeros-{part}": bytes(33 << 20) for part in range(2)}))
    with pytest.raises(InvalidInput, match="more than 1000 files"):
        unpack(zipped({f"f{number}": b"" for number in range(1000)}))


def empty_entries(count: int) -> bytes:
    """Return an archive whose directory lists `count` empty files with the same name."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    size = count * len(entry)
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, size, 1)
    return entry * count + wide + locator + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[65535] * 2, *[2**32 - 1] * 2, 0)


@pytest.mark.parametrize("read", [unpack, unpack_headers])
def test_family_bundle_of_too_many_empty_files_is_refused_with_little_memory(read: Callable[[bytes], object]) -> None:
    content = empty_entries(100_000)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="more than"):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_family_bundle_with_a_wrong_stored_size_is_refused() -> None:
    content = bytearray(zipped({"a": b"x" * 1000}))
    place = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, place + 24, 10)
    with pytest.raises(InvalidInput, match="bundle"):
        unpack(bytes(content))


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06" + bytes(18), b"\x1f\x8b tar", zipped({})[:-5]])
def test_family_bundle_that_is_not_a_zip_archive_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="bundle"):
        unpack(content)


def test_family_bundle_with_an_unusual_compression_method_is_refused() -> None:
    def lzma(entry: zipfile.ZipInfo) -> None:
        entry.compress_type = zipfile.ZIP_LZMA

    with pytest.raises(InvalidInput, match="unsupported method"):
        unpack(zipped({}, lzma))


@pytest.mark.parametrize("spec", [b"\xff", b"name = ", b"x = " + b"[" * 100_000, b"name = 'x'", b"#" * (2 << 20)])
def test_invalid_family_toml_in_a_family_bundle_is_refused(spec: bytes) -> None:
    with pytest.raises(InvalidInput):
        family_of(unpack(zipped({"family.toml": spec})))


def test_worker_unpacks_a_family_bundle_only_if_its_digest_matches(tmp_path: Path) -> None:
    package = registry.find(str(FAULTY))
    ref = FamilyRef(name="faulty", digest=package.digest, location=bundle.SCHEME + "0" * 64)
    content = pack(package)
    copy = Families(tmp_path / "a", lambda digest: content).get(ref)
    assert copy.package.digest == package.digest
    assert copy.reference.read_bytes() == (FAULTY / "reference.py").read_bytes()
    changed = zipped({name: text + b"\n" for name, text in unpack(content).items()})

    def lost(digest: str) -> bytes:
        raise EvoError("the service is away")

    for fetch in (lambda digest: changed, lambda digest: b"junk", lost, None):
        with pytest.raises(FamilyMismatch, match="faulty"):
            Families(tmp_path / "b", fetch).get(ref)
    assert not (tmp_path / "b" / "bundles").exists() or not any((tmp_path / "b" / "bundles").rglob("*.py"))


@pytest.mark.parametrize(
    "error", [ServiceUnreachable("away"), ServiceAway("503"), ServiceError("answered 500"), ForeignService("a page")]
)
def test_download_of_a_family_bundle_succeeds_after_a_service_error(tmp_path: Path, error: EvoError) -> None:
    package = registry.find(str(FAULTY))
    ref = FamilyRef(name="faulty", digest=package.digest, location=bundle.SCHEME + package.digest)
    answers: list[bytes | EvoError] = [error, pack(package)]

    def fetch(digest: str) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, EvoError):
            raise answer
        return answer

    families = Families(tmp_path, fetch)
    with pytest.raises(type(error)):
        families.get(ref)
    assert families.get(ref).package.digest == package.digest


def test_family_name_is_not_used_as_a_path(tmp_path: Path) -> None:
    for name in ("..", "../faulty", str(FAULTY), "space.json"):
        with pytest.raises(FamilyMismatch, match="set `location` of the family"):
            Families(tmp_path).get(FamilyRef(name=name, digest="0" * 64))


def test_oversized_family_toml_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput, match="is larger than 256 KiB; move data into another file of the bundle"):
        family_of({"family.toml": b"[[a]]\n" * 60_000})

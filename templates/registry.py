"""Finds families by name or path.

A family is a built-in folder, a folder of an installed package, a folder of a user, or a recording file.
"""

import gzip
import hashlib
import importlib.util
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from itertools import islice
from pathlib import Path

from evo.errors import EvoError, InvalidInput, NotFound
from evo.family import Family
from evo.family.launch.entry import is_instance, template_name
from evo.family.python.reading import FILE as PYTHON_SPEC
from evo.family.python.reading import read_family
from evo.family.scope import WORD
from evo.space.recording import Recording, parse_recording, recording_name
from evo.text.document import read_toml, toml_text
from evo.text.encoding import not_gzip, not_utf8, python_text, utf8_text
from evo.text.shell import quoted, with_home
from evo.text.suggestion import unknown
from templates.reference_source import require_inputs

SPEC = "family.toml"
REFERENCE = "reference.py"
ENTRY_POINT_GROUP = "kernel_evo.families"
RECORDING_SUFFIXES = (".json", ".json.gz")
WANTED = f"a folder with a {SPEC} or {PYTHON_SPEC}, or a recording ({', '.join(RECORDING_SUFFIXES)})"

BUILTIN = Path(__file__).parent
INCLUDE = BUILTIN / "include"
RECORDINGS = BUILTIN / "recordings"

MAX_FILES = 1_000
MAX_FOLDER_BYTES = 64 << 20
MAX_RECORDING_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Package:
    """A family with the contents of its files.

    Attributes:
        path: path of the family's folder or of the recording file.
        digest: SHA-256 of the names and contents in `files`; for a recording, of its name and content.
        files: contents by path relative to the folder. ``include/`` contains the headers that all families share. A
            recording has no files.
        location: absolute path of the family; None for built-in and uploaded families.
        recording: the recorded space; None if the family is not a recording.
    """

    path: Path
    family: Family
    digest: str
    files: Mapping[str, bytes]
    location: str | None
    recording: Recording | None = None


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A family that cannot be read. `reason` contains the position of the fault."""

    name: str
    reason: str


def names() -> list[str]:
    """Return the names of families that need no path: built-in families and families of installed packages."""
    return sorted({*_builtin_folders(), *_installed()})


def builtin() -> list[Package]:
    """Return the built-in families that can be read, sorted by name."""
    return [each for each in _survey() if isinstance(each, Package)]


def builtin_digests() -> dict[str, str]:
    """Return the digests of the built-in families by name.

    No family.toml is parsed, so this function is ten times faster than `builtin`.
    """
    shared = _state(INCLUDE)
    return {name: _read_digest(path, (*_state(path), *shared)) for name, path in _builtin_folders().items()}


def builtin_digest(name: str) -> str | None:
    """Return the digest of a built-in family, or None if no family has this name. Only this family is read."""
    path = _builtin_folders().get(name)
    return None if path is None else _read_digest(path, (*_state(path), *_state(INCLUDE)))


def broken() -> list[Broken]:
    """Return the built-in families that cannot be read."""
    return [each for each in _survey() if isinstance(each, Broken)]


def recordings() -> dict[str, Path]:
    """Return the paths of the built-in recorded spaces, by name."""
    found = {path.name.removesuffix(".json.gz"): path for path in sorted(RECORDINGS.glob("*.json.gz"))}
    return {name: path for name, path in found.items() if not name.endswith(".t4")}


def _survey() -> Iterator[Package | Broken]:
    for name, path in _builtin_folders().items():
        try:
            yield _folder(path, built_in=True)
        except EvoError as error:
            yield Broken(name=name, reason=str(error))


def find(name_or_path: str) -> Package:
    """Return a family by name or path.

    A name selects a built-in family or recording, or a family of an installed package.

    Raises:
        NotFound: the family does not exist.
        InvalidInput: the family cannot be read, or a field of its document is invalid.
    """
    if is_path(name_or_path):
        return _at(_resolved(name_or_path))
    builtins, installed = _builtin_folders(), _installed()
    if name_or_path in builtins:
        return _folder(builtins[name_or_path], built_in=True)
    if name_or_path in installed:
        return _folder(_package_folder(name_or_path, installed[name_or_path]), built_in=False)
    if name_or_path in (shipped := recordings()):
        return _at(shipped[name_or_path])
    name, *fields = re.split(r"[\s,:;@(){}\[\]]+", name_or_path.strip(" )}]"))
    if any("=" in each for each in fields) and name in {*builtins, *installed, *shipped}:
        problem = quoted(",".join(fields))
        raise NotFound(f"{quoted(name_or_path)} is not a family; write {name} --problem {problem}")
    reason = unknown(name_or_path, [*builtins, *installed], "families")
    if name_or_path and Path(name_or_path).exists():
        reason += f"; for the family in this directory, write {quoted(f'./{name_or_path}')}"
    raise NotFound(reason)


def own_files(package: Package) -> dict[str, bytes]:
    """Return the files of a package, except for the shared includes of this version of kernel-evo."""
    shared = {f"include/{name}": content for name, content in _read_files(INCLUDE)}
    return {name: content for name, content in package.files.items() if shared.get(name) != content}


def files_digest(files: Mapping[str, bytes]) -> str:
    """Return the digest of a family whose folder contains these files."""
    return _digest({f"include/{name}": content for name, content in _read_files(INCLUDE)} | dict(files))


def package_of(family: Family, files: Mapping[str, bytes]) -> Package:
    """Return the package of a family whose files are in memory only, with the shared includes added."""
    contents = {f"include/{name}": content for name, content in _read_files(INCLUDE)} | dict(files)
    return Package(path=Path(family.name), family=family, digest=_digest(contents), files=contents, location=None)


def is_path(text: str) -> bool:
    return "/" in text or "\\" in text or text in (".", "..", "~") or text.endswith(RECORDING_SUFFIXES)


def _resolved(text: str) -> Path:
    try:
        return with_home(text).resolve(strict=True)
    except FileNotFoundError as error:
        raise NotFound(f"{text:.200} does not exist; pass the path of {WANTED}") from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotFound(f"{text:.200} cannot be opened ({reason}); pass the path of {WANTED}") from error


def _builtin_folders() -> dict[str, Path]:
    return {spec.parent.name: spec.parent for spec in sorted(BUILTIN.glob(f"*/{SPEC}"))}


def _installed() -> dict[str, str]:
    return {point.name: point.value for point in sorted(entry_points(group=ENTRY_POINT_GROUP))}


def _package_folder(name: str, module: str) -> Path:
    try:
        found = importlib.util.find_spec(module)
    except ImportError as error:
        raise NotFound(f"family {name}: its package {module} cannot be imported ({error}); reinstall it") from error
    for location in (found.submodule_search_locations or []) if found else []:
        if any((Path(location) / name).is_file() for name in (SPEC, PYTHON_SPEC)):
            return Path(location)
    raise NotFound(f"family {name}: its package {module} contains no {SPEC}; reinstall the package")


def _at(path: Path) -> Package:
    if path.is_dir():
        return _folder(path, built_in=False)
    if path.name.endswith(RECORDING_SUFFIXES):
        return _recording(path, _state(path))
    if path.name in (SPEC, PYTHON_SPEC):
        return _folder(path.parent, built_in=False)
    remedy = f"rename a recording to {path.stem}.json"
    if path.suffix in (".c", ".cc", ".cpp", ".cxx", ".cu", ".py"):
        remedy = "`kernel-evo import FILE` creates a family from it"
    raise NotFound(f"{path} is not {WANTED}; {remedy}")


def _folder(path: Path, *, built_in: bool) -> Package:
    if not any((path / name).is_file() for name in (SPEC, PYTHON_SPEC)):
        remedy = "`kernel-evo new NAME` creates an example family"
        raise NotFound(f"{path} contains no {SPEC} and no {PYTHON_SPEC}; {remedy}")
    return _read_folder(path, built_in, (*_state(path), *_state(INCLUDE)))


def _state(path: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Return names, modification times, sizes and inodes of the files below `path`.

    The result changes if a file is edited or added.
    """
    stats = ((file, file.stat()) for file in _paths(path))
    return tuple((str(file), stat.st_mtime_ns, stat.st_size, stat.st_ino) for file, stat in stats)


@lru_cache(maxsize=64)
def _read_digest(path: Path, state: object) -> str:
    """Return the digest of a family's folder. It is cached until the files change, which `state` shows (`_state`)."""
    return files_digest(dict(_read_files(path)))


@lru_cache(maxsize=32)
def _read_folder(path: Path, built_in: bool, state: object) -> Package:
    """Return the family in a folder. It is cached until the files change, which `state` shows (see `_state`)."""
    own = dict(_read_files(path))
    family, own = (_read_family(path), own) if PYTHON_SPEC not in own else _read_python(path, own)
    files = {f"include/{name}": content for name, content in _read_files(INCLUDE)} | own
    package = Package(
        path=path,
        family=family,
        digest=_digest(files),
        files=files,
        location=None if built_in else str(path),
    )
    _check_files(package)
    _check_instances(package)
    _check_reference(path / REFERENCE, files[REFERENCE])
    require_inputs(family.arguments, files[REFERENCE], spec=SPEC, file=REFERENCE)
    return package


def _read_family(path: Path) -> Family:
    where, text = str(path / SPEC), _utf8(path / SPEC)
    try:
        document = read_toml(text)
    except ValueError as error:
        raise InvalidInput(where, f"cannot be read as TOML: {error}") from error
    family = Family.from_document(document, SPEC)
    family.check_new(SPEC)
    if family.name != path.name:
        raise InvalidInput(
            where, f'name = "{family.name}" differs from the folder\'s name: {_common_name(family, path)}'
        )
    return family


def _read_python(path: Path, own: Mapping[str, bytes]) -> tuple[Family, dict[str, bytes]]:
    """Return the family that a class in family.py describes, and the family's files.

    In the files, family.py is replaced with the files that the class generates, including family.toml.
    """
    files = {name: content for name, content in own.items() if name != PYTHON_SPEC}
    document, made = read_family(_utf8(path / PYTHON_SPEC))
    made[SPEC] = toml_text(document)
    if clashing := sorted(made.keys() & files.keys()):
        raise InvalidInput(
            str(path / PYTHON_SPEC),
            f"generates {clashing[0]}, but its folder contains a file with this name; remove the file",
        )
    family = Family.from_document(document, PYTHON_SPEC)
    family.check_new(PYTHON_SPEC)
    if family.name != path.name:
        where = str(path / PYTHON_SPEC)
        raise InvalidInput(where, f"`class {family.name}` differs from the folder's name: {_common_name(family, path)}")
    return family, files | {name: content.encode() for name, content in made.items()}


def _utf8(path: Path) -> str:
    content = _bytes(path)
    try:
        return utf8_text(content)
    except UnicodeDecodeError as error:
        raise InvalidInput(str(path), not_utf8(content, error, str(path))) from error


def _check_reference(path: Path, content: bytes) -> None:
    try:
        python_text(content)
    except UnicodeDecodeError as error:
        raise InvalidInput(str(path), not_utf8(content, error, str(path))) from error
    except SyntaxError:  # the encoding that the file declares is unknown; the runner reports it
        pass


def _common_name(family: Family, path: Path) -> str:
    """Return advice on how to make the names of family and folder equal."""
    if WORD.fullmatch(path.name):
        return f"make both {path.name}"
    return f"rename the folder to {family.name}, because {path.name!r} is not a valid family name"


def _check_files(package: Package) -> None:
    names = {kind: implementation.file for kind, implementation in package.family.implementations.items()}
    for where, name in [*((f"{SPEC}: {kind}", name) for kind, name in names.items()), (package.family.name, REFERENCE)]:
        if name not in package.files:
            raise InvalidInput(where, f"the file {name} is missing from {package.path}; add it")


def _check_instances(package: Package) -> None:
    """Check that the family's files define the C++ template of each ``entry`` that is a template instance."""
    for kind, implementation in package.family.implementations.items():
        texts = [content.decode(errors="replace") for name, content in package.files.items() if name != SPEC]
        for entry in filter(is_instance, implementation.entries):
            name = template_name(entry)
            if not any(re.search(rf"\btemplate\s*<[^;{{]*\b{name}\s*\(", text) for text in texts):
                reason = f"{entry} is an instance of a template, but {implementation.file} defines no template `{name}`"
                remedy = f'write entry = "{name}" for a function that is `extern "C"`, or its mangled name'
                raise InvalidInput(f"{SPEC}: {kind}.entry", f"{reason}; {remedy}")


def _read_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    total = 0
    for path in _paths(folder):
        content = _bytes(path)
        total += len(content)
        if total > MAX_FOLDER_BYTES:
            raise InvalidInput(str(folder), f"contains more than {MAX_FOLDER_BYTES >> 20} MiB; move data elsewhere")
        yield path.relative_to(folder).as_posix(), content


def _paths(path: Path) -> list[Path]:
    """Return the paths of a family's files in sorted order.

    Hidden files, caches and backup files of editors are omitted. Symbolic links are followed.
    """
    if path.is_file():
        return [path]
    paths = sorted(islice(_walked(path, path, frozenset()), MAX_FILES + 1))
    if len(paths) > MAX_FILES:
        raise InvalidInput(str(path), f"contains more than {MAX_FILES} files; move the family to a separate folder")
    return paths


def _walked(folder: Path, top: Path, above: frozenset[Path]) -> Iterator[Path]:
    """Yield the paths of all files below a folder. Symbolic links to its parent folders are skipped.

    Args:
        folder: the folder to read.
        top: the family's folder.
        above: parent folders of `folder`, with symbolic links resolved.
    """
    above = above | {folder.resolve()}
    for path in folder.iterdir():
        if not _matters(path.relative_to(top)):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and path.resolve() not in above:
            yield from _walked(path, top, above)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror}") from error


def _matters(path: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    return not hidden and not path.name.endswith(("~", ".pyc"))


def _digest(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of the names and contents of files.

    The hash is computed from the SHA-256 of each name and each content. If names and contents were concatenated
    instead, different folders could give the same bytes.
    """
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(hashlib.sha256(name.encode()).digest())
        digest.update(hashlib.sha256(files[name]).digest())
    return digest.hexdigest()


@lru_cache(maxsize=8)
def _recording(path: Path, state: object) -> Package:
    name = recording_name(path.name.removesuffix(".gz").removesuffix(".json"))
    content = _read_recording(path)
    try:
        text = utf8_text(content)
    except UnicodeDecodeError as error:
        packed = path.suffix == ".gz"
        reason = not_utf8(content, error, str(path.with_suffix("") if packed else path))
        raise InvalidInput(str(path), f"{reason}, after `gunzip {quoted(str(path))}`" if packed else reason) from error
    recording = parse_recording(text, name)
    return Package(
        path=path,
        family=Family.from_document(recording.document(), path.name),
        digest=hashlib.sha256(f"{name}\n".encode() + content).hexdigest(),
        files={},
        location=str(path),
        recording=recording,
    )


def _read_recording(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MAX_RECORDING_BYTES + 1)
    except EOFError:
        remedy = f"copy the file again, or recover its beginning: gzip -dc {quoted(str(path))} > recording.json"
        raise InvalidInput(str(path), f"is truncated; {remedy}") from None
    except gzip.BadGzipFile:
        raise InvalidInput(str(path), not_gzip(path)) from None
    except zlib.error as error:
        raise InvalidInput(str(path), f"is damaged ({error}); copy the file again") from error
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_RECORDING_BYTES:
        raise InvalidInput(str(path), f"is larger than {MAX_RECORDING_BYTES >> 30} GiB")
    return content

"""Reads and writes variants on disk. A variant is a folder with variant.toml and sources, or a single source file."""

from itertools import islice
from pathlib import Path

from evo.cli.files.writing import write_folder, writing_to
from evo.errors import Conflict, InvalidInput, NotFound
from evo.messages.view import VariantSource
from evo.text.document import read_toml, toml_text
from evo.text.encoding import not_utf8, utf8_text
from evo.variants.proposers.base import VariantFiles
from templates.variant import CONTRACT, FOLDER, MAX_BYTES, MAX_FILES

DOCUMENT = "variant.toml"


def read_variant_files(path: Path) -> VariantFiles:
    """Return the variant in a folder with variant.toml and sources, or in a single source file.

    Raises:
        NotFound: there is no such file or folder.
        InvalidInput: variant.toml is not valid TOML, a file is not text or too large, a link leads out of the folder,
            there are too many files, or there is no source.
    """
    if path.is_file():
        return VariantFiles(document={"name": path.name.partition(".")[0]}, files={path.name: _text(path)})
    if not path.is_dir():
        raise NotFound(f"{path} does not exist; choose a folder with {DOCUMENT} and sources, or one source file")
    matching = (each for each in path.rglob("*") if each.is_file() and _is_part_of_variant(each.relative_to(path)))
    found = sorted(islice(matching, MAX_FILES + 2))  # the folder may be large, so only the needed entries are read
    if len(found) > MAX_FILES + 1:
        raise InvalidInput(str(path), f"contains more than {MAX_FILES} files; put the variant into a separate folder")
    for each in found:
        if not each.resolve().is_relative_to(path.resolve()):
            raise InvalidInput(str(each), "is a link that leads out of the folder: submit a copy of the file instead")
    files = {each.relative_to(path).as_posix(): _text(each) for each in found}
    if not files.keys() - {DOCUMENT}:
        raise InvalidInput(str(path), f"contains no source; put the kernel and {DOCUMENT} into the folder")
    try:
        document = read_toml(files.pop(DOCUMENT, ""))
    except ValueError as error:
        raise InvalidInput(str(path / DOCUMENT), f"cannot be read as TOML: {error}") from error
    return VariantFiles(document={"name": path.resolve().name, **document}, files=files)


def write_variant_files(folder: Path, source: VariantSource) -> list[Path]:
    """Write a variant to a new folder, where the user can edit and submit it. Return the paths of the files.

    Raises:
        Conflict: the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(f"{folder} already exists; choose another folder, or remove it")
    table = {key: value for key, value in source.table.items() if key not in CONTRACT}
    for mode in ("template", "source"):
        if mode in table:
            table[mode] = str(table[mode]).removeprefix(f"{FOLDER}/")
    texts = {DOCUMENT: toml_text({"idea": "", **table}), **source.files}
    with writing_to(folder, "--out"):
        return write_folder(folder, texts)


def _is_part_of_variant(path: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    return not hidden and not path.name.endswith(("~", ".md", ".txt"))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(str(path), f"must not be larger than {MAX_BYTES >> 20} MiB")
        content = path.read_bytes()
        return utf8_text(content)
    except UnicodeDecodeError as error:
        raise InvalidInput(str(path), not_utf8(content, error, str(path))) from error
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror}") from error

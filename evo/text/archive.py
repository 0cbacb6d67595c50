"""Opens ZIP archives from other machines, with a limit on the size of their directory."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

ENTRY_BYTES = 512
"""Maximum mean size in bytes of an entry of the directory: 46, the name, and what a program adds, such as times."""


class DirectoryTooLarge(Exception):
    """The directory of the archive is larger than the largest accepted number of files needs."""


@contextmanager
def open_zip(content: bytes, *, most_files: int) -> Iterator[zipfile.ZipFile]:
    """Open an archive. The caller must still check the number, the names and the sizes of its entries.

    `zipfile` makes an object of each entry when it opens an archive, so 60 MB of empty entries would take 400 MB.

    Raises:
        DirectoryTooLarge: the directory is larger than `most_files` entries need.
        zipfile.BadZipFile, ValueError, …: the content is no archive.
    """
    file = _Content(content, most_files * ENTRY_BYTES)
    with zipfile.ZipFile(file) as archive:
        file.most_bytes = None
        yield archive


class _Content(io.BytesIO):
    """The bytes of an archive. While `most_bytes` is set, larger reads are refused; only the directory needs them."""

    def __init__(self, content: bytes, most_bytes: int) -> None:
        super().__init__(content)
        self.most_bytes: int | None = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if self.most_bytes is not None and size is not None and size > self.most_bytes:
            raise DirectoryTooLarge
        return super().read(size)

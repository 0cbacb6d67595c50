"""Opens ZIP archives from untrusted sources, with a limit on the size of their directory."""

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

ENTRY_BYTES = 512
"""Maximum mean size of a directory entry in bytes: 46 fixed bytes, the name, and additional data such as times."""


class DirectoryTooLarge(Exception):
    """The archive's directory is too large for the maximum number of files."""


@contextmanager
def open_zip(content: bytes, *, most_files: int) -> Iterator[zipfile.ZipFile]:
    """Open an archive. The caller must still check the number, the names and the sizes of its entries.

    `zipfile` creates an object for each entry when it opens an archive; without the limit, 60 MB of empty entries would
    take 400 MB of memory.

    Args:
        most_files: maximum number of entries.

    Raises:
        DirectoryTooLarge: the directory is too large for `most_files` entries.
        zipfile.BadZipFile, ValueError, …: the content is not an archive.
    """
    file = _Content(content, most_files * ENTRY_BYTES)
    with zipfile.ZipFile(file) as archive:
        file.most_bytes = None
        yield archive


class _Content(io.BytesIO):
    """The bytes of an archive. While the directory is read, `most_bytes` is set, and larger reads are refused."""

    def __init__(self, content: bytes, most_bytes: int) -> None:
        super().__init__(content)
        self.most_bytes: int | None = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if self.most_bytes is not None and size is not None and size > self.most_bytes:
            raise DirectoryTooLarge
        return super().read(size)

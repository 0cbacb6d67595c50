"""Atomic file writes."""

import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Replace the content of a file atomically.

    Readers see either the old or the new content, even if this process crashes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as draft:
        try:
            draft.write(content)
            draft.flush()
            Path(draft.name).replace(path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise

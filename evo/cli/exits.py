"""Exit codes, the same for every command."""

from enum import IntEnum

from evo.errors import CannotJudge, Conflict, EvoError, InvalidInput, NotFound


class Exit(IntEnum):
    """Exit statuses, which are described in `MEANING`."""

    DONE = 0
    NOTHING_FOUND = 1
    WRONG_INPUT = 2
    UNAVAILABLE = 3
    CONFLICT = 4
    BUG = 70
    INTERRUPTED = 130
    UNHEARD = 141


MEANING = {
    Exit.DONE: "done; also after one Ctrl-C, which ends a search early with its report",
    Exit.NOTHING_FOUND: "ended without success: no config could be measured, the config was rejected, "
    "reference.py fails, the search failed or was cancelled, `doctor` found no device to search on",
    Exit.WRONG_INPUT: "the command line or an input is wrong: unknown option, family, field, config, device or search; "
    "an empty space",
    Exit.UNAVAILABLE: "something is missing: the service cannot be reached or is not kernel-evo, the port is taken, "
    "the database is locked, read-only or of a newer schema, there is no compiler or no usable GPU, or a file or "
    "standard output cannot be read or written",
    Exit.CONFLICT: "the request does not fit the current state, e.g. resuming a search that has ended",
    Exit.BUG: "an error of kernel-evo itself; the message names the file with the details",
    Exit.INTERRUPTED: "interrupted: Ctrl-C twice, or once before anything ran; ended by another signal N: 128 + N",
    Exit.UNHEARD: "the reader of standard output closed it, as `| head` does; the rest of the output is lost",
}


def code_of(error: EvoError) -> Exit:
    """Return the exit code for an expected error."""
    if isinstance(error, InvalidInput | NotFound):
        return Exit.WRONG_INPUT
    if isinstance(error, CannotJudge):
        return Exit.NOTHING_FOUND
    return Exit.CONFLICT if isinstance(error, Conflict) else Exit.UNAVAILABLE

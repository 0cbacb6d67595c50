"""Exit codes, which are the same for all commands."""

from enum import IntEnum

from evo.errors import CannotJudge, Conflict, EvoError, InvalidInput, NotFound


class Exit(IntEnum):
    """Exit codes. `MEANING` describes each code."""

    DONE = 0
    NOTHING_FOUND = 1
    WRONG_INPUT = 2
    UNAVAILABLE = 3
    CONFLICT = 4
    BUG = 70
    INTERRUPTED = 130
    UNHEARD = 141


MEANING = {
    Exit.DONE: "the command succeeded. This includes a search that one Ctrl-C ended early, with its report",
    Exit.NOTHING_FOUND: "the command ended without a result: no config could be measured, the config was rejected, "
    "reference.py failed, the search failed or was cancelled, or `doctor` found no device to search on",
    Exit.WRONG_INPUT: "the command line or an input is wrong: an option, family, field, config, device or search is "
    "unknown, a file or folder to read is missing, unreadable or invalid, a path is a folder where a file is needed or "
    "the reverse, there is no database to read, or the space is empty",
    Exit.UNAVAILABLE: "a requirement is missing: the service cannot be reached or is not kernel-evo, the port is in "
    "use, the database is locked, read-only, damaged or has a newer schema, there is no compiler or no usable GPU, or "
    "a result, a cache or standard output cannot be written",
    Exit.CONFLICT: "the request does not fit the current state, e.g. resuming a search that has ended, or the file "
    "or folder to write already exists",
    Exit.BUG: "a bug in kernel-evo; the message names the file with the details",
    Exit.INTERRUPTED: "Ctrl-C ended the command: pressed twice, or once before anything ran. If a different signal N "
    "ended the command, the code is 128 + N",
    Exit.UNHEARD: "the reader of standard output closed the pipe, as `| head` does; the rest of the output is lost",
}


def code_of(error: EvoError) -> Exit:
    """Return the exit code for an expected error."""
    if isinstance(error, InvalidInput | NotFound):
        return Exit.WRONG_INPUT
    if isinstance(error, CannotJudge):
        return Exit.NOTHING_FOUND
    return Exit.CONFLICT if isinstance(error, Conflict) else Exit.UNAVAILABLE

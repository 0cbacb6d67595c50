"""Descriptions of a kernel's faults: changed process state, and accesses out of bounds."""

import signal

from workers.backends.cpu.memory import GuardedArray

_SAVED_REGISTERS = ("rbx", "rbp", "r12", "r13", "r14", "r15", "rsp")
"""Callee-saved registers, in the order of the bits that `kernel_process.c` reports, from bit 8 on."""


def changes_text(changes: int, number: int, *, after: str = "it returned") -> str | None:
    """Return a description of the process state that calls changed and did not restore, or None if there is none.

    Args:
        changes: bit mask of changes, from the reply of the kernel process.
        number: number of the signal whose handling changed.
        after: clause for the description, which states when the change was found.
    """
    modes = {1: "rounding mode", 2: "x87 precision", 16: "exception masks", 32: "direction flag"}
    modes[64] = "x87 registers"
    if left := [name for bit, name in modes.items() if changes & bit]:
        return f"leaves the processor's {' and '.join(left)} changed after {after}"
    if left := [name for bit, name in enumerate(_SAVED_REGISTERS, start=8) if changes >> bit & 1]:
        return f"does not restore the callee-saved register{'s' * (len(left) > 1)} {', '.join(left)}"
    if changes & 4:
        return f"changes the handling of {_signal_name(number)} and does not restore it"
    if changes & 8:
        return "leaves a timer running"
    if changes & 128:
        return "creates thread-specific keys in its calls (pthread_key_create) and never deletes them"
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def trespass_text(array: GuardedArray, distance: int, writes: int) -> str:
    """Return a description of a forbidden memory access.

    Args:
        array: array that is nearest to the accessed address.
        distance: offset of the accessed address from the start of the array in bytes.
        writes: 0 for a read, 1 for a write, another value if unknown.
    """
    name, size = array.argument.name, array.bytes.size
    if 0 <= distance < size:
        return f"modifies its input `{name}`"
    verb = {0: "reads", 1: "writes"}.get(writes, "reads or writes")
    where = f"{distance - size} bytes after" if distance >= size else f"{-distance} bytes before"
    return f"{verb} out of bounds: {where} `{name}`"

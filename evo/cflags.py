"""How C kernels are compiled: a worker does it, and an exported champion says how to do it again."""

ARM = ("arm64", "aarch64")


def native_flag(machine: str) -> str:
    """What makes a compiler use all that the processor has.

    Args:
        machine: the processor's name as `platform.machine` gives it, or a device's architecture, which begins with it.
    """
    return "-mcpu=native" if machine.lower().startswith(ARM) else "-march=native"


def c_flags(machine: str) -> tuple[str, ...]:
    """Flags of every C compiler, before those of the family."""
    return "-O3", native_flag(machine), "-ffp-contract=fast", "-fPIC", "-shared", "-std=gnu11"

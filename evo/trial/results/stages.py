"""Time of a job by stage."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Seconds that a job spent in each stage.

    Attributes:
        wait_s: waiting to be compiled, for others of its batch, and for the device.
        total_s: from the arrival of the claim to the end of the work.
        overhead_s: time the search lost on this trial, as docs/reference/measuring.md defines it; None: not known.
    """

    render_s: float = 0.0
    compile_s: float = 0.0
    verify_s: float = 0.0
    measure_s: float = 0.0
    wait_s: float = 0.0
    total_s: float = 0.0
    overhead_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a confirmation.

    Attributes:
        process: number of the fresh process that ran it; 0: it ran after the processes.
        name: e.g. ``start``, ``device``, ``references``, ``verify challenger``, ``rounds``, ``sanitizers``.
    """

    process: int
    name: str
    seconds: float

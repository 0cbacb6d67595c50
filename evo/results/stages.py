"""Where the time of a job went."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Seconds a job spent where.

    Attributes:
        wait_s: for its turn to be built, for the others of its batch, for the device.
        total_s: from the claim's arrival to the end of the work.
        overhead_s: that the search lost over this trial, as docs/reference/measuring.md defines it; None: not known.
    """

    render_s: float = 0.0
    compile_s: float = 0.0
    verify_s: float = 0.0
    measure_s: float = 0.0
    wait_s: float = 0.0
    total_s: float = 0.0
    overhead_s: float | None = None

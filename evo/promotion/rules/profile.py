"""A policy's gates on profiler counters, and a table of the counters."""

from collections.abc import Mapping
from dataclasses import dataclass

from evo.device.counters import FIGURES, Figure
from evo.promotion.policy import Policy
from evo.trial.results import Profiled


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A policy's limit for a counter, or for the change of a counter from the incumbent.

    Attributes:
        field: name of the policy's field.
        figure: name of the counter in `evo.device.counters.FIGURES`.
        better: 0 if the limit applies to the value. If it applies to the change, the sign of an improvement: 1 if the
            counter should rise, -1 if it should fall.
    """

    field: str
    figure: str
    better: int = 0


GATES = (
    Gate(field="min_tensor_active", figure="tensor_active"),
    Gate(field="min_achieved_occupancy", figure="achieved_occupancy"),
    Gate(field="min_sector_efficiency", figure="sector_efficiency"),
    Gate(field="min_fp8_operations", figure="fp8_operations"),
    Gate(field="min_l2_hit_gain", figure="l2_hit_rate", better=1),
    Gate(field="min_dram_drop", figure="dram_share", better=-1),
)


def unmet_gates(profiles: Mapping[str, Profiled], policy: Policy) -> tuple[str, ...] | None:
    """Describe each profiler gate that the challenger does not meet; None if the policy has no profiler gates.

    Gates for a change from the incumbent apply only if there is an incumbent. If a gate's counter was not measured,
    the gate is not met.
    """
    demands = [(gate, getattr(policy, gate.field)) for gate in GATES if getattr(policy, gate.field) is not None]
    if not demands:
        return None
    challenger, incumbent = (profiles.get(side) for side in ("challenger", "incumbent"))
    unmet = (
        _unmet_gate(gate, least, challenger, incumbent)
        for gate, least in demands
        if not gate.better or incumbent is not None
    )
    return tuple(miss for miss in unmet if miss is not None)


def _unmet_gate(gate: Gate, least: float, challenger: Profiled | None, incumbent: Profiled | None) -> str | None:
    figure = FIGURES[gate.figure]
    value = None if challenger is None else challenger.figures.get(gate.figure)
    if gate.better and value is not None:
        before = None if incumbent is None else incumbent.figures.get(gate.figure)
        value = None if before is None else gate.better * (value - before)
    wanted = figure.text(least)
    what = f"{figure.title} {'lower' if gate.better < 0 else 'higher'} by" if gate.better else figure.title
    if value is None:
        return f"{what} at least {wanted} (not measured)"
    return None if value >= least else f"{what} at least {wanted} (found {figure.text(value)})"


def profile_rows(profiles: Mapping[str, Profiled]) -> list[tuple[str, str, str, str]]:
    """Return the title, the challenger's value, the incumbent's value and the change of each counter, as strings.

    Counters without a value for either kernel are omitted.
    """
    sides = [profiles[side].figures if side in profiles else {} for side in ("challenger", "incumbent")]
    rows = []
    for name, figure in FIGURES.items():
        new, old = (side.get(name) for side in sides)
        if new is None and old is None:
            continue
        rows.append((figure.title, _text(figure, new), _text(figure, old), _change(figure, new, old)))
    return rows


def _text(figure: Figure, value: float | None) -> str:
    return "–" if value is None else figure.text(value)


def _change(figure: Figure, new: float | None, old: float | None) -> str:
    if new is None or old is None:
        return ""
    if figure.unit == "fraction":
        return f"{100 * (new - old):+.1f} points"
    return f"{new / old - 1:+.1%}" if old else ""

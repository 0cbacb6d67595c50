"""Check whether the evidence of an earlier champion still holds, so that it can be restored."""

from evo.promotion.verdict import Verdict
from evo.trial.objective import PROTOCOL_VERSION, Objective


def void_reason(verdict: Verdict | None, objective: Objective, *, refuted: str | None = None) -> str | None:
    """Return why the evidence of a champion is void; None where it still holds.

    Args:
        refuted: why a later confirmation found this kernel wrong.
    """
    if refuted is not None:
        return f"a later confirmation refuted its kernel: {refuted}"
    if verdict is None or verdict.challenger is None:
        return "nothing was measured for its promotion"
    if not verdict.promote:
        return f"its own confirmation did not meet every rule: {' '.join(rule.text for rule in verdict.unmet)}"
    if objective.protocol != PROTOCOL_VERSION:
        return (
            f"it was measured under timing protocol {objective.protocol}, and this version measures under protocol "
            f"{PROTOCOL_VERSION}: their times do not compare"
        )
    return None

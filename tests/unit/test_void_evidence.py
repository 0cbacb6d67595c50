"""Earlier champions with invalid evidence cannot be restored."""

from dataclasses import replace

from evo.promotion import Rule, void_reason
from evo.trial.objective import PROTOCOL_VERSION, Objective
from tests.unit.views import VERDICT


def test_promoted_verdict_of_the_current_protocol_is_valid_evidence() -> None:
    assert void_reason(VERDICT, Objective()) is None


def test_invalid_evidence_is_reported_with_the_reason() -> None:
    gain = Rule(name="gain", passed=False, figure=0.0, threshold=0.02, text="The gain is too small.")
    refused = replace(VERDICT, promote=False, rules=(gain,))
    assert "The gain is too small." in str(void_reason(refused, Objective()))
    assert "nothing was measured" in str(void_reason(None, Objective()))
    assert "nothing was measured" in str(void_reason(replace(VERDICT, challenger=None), Objective()))
    earlier = Objective(protocol=PROTOCOL_VERSION - 1)
    assert f"timing protocol {PROTOCOL_VERSION - 1}" in str(void_reason(VERDICT, earlier))
    assert "2 wrong answers" in str(void_reason(VERDICT, Objective(), refuted="2 wrong answers"))

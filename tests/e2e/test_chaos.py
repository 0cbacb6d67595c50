"""A short chaos: one fault of each kind at a small fleet. `make chaos` does a hundred and more."""

import pytest

from tests.e2e.chaos import run


@pytest.mark.timeout(600)
def test_every_trial_ends_once_whatever_dies() -> None:
    faults, answers = run(6, services=2, workers=3, seed=7)
    assert len(faults) == 5
    assert answers["trials"] > 0
    assert answers["accepted"] > 0

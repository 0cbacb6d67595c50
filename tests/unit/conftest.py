"""Fixtures of the synthetic recording, and settings of Hypothesis.

Examples have no time limit, because machines may be busy. All runs use the same examples, so that a change is not
blamed for an example that an earlier run did not try.
"""

import json

import pytest
from hypothesis import HealthCheck, settings

from evo.space import Space, Tunable
from evo.space.recording import Recording, parse_recording
from tests.data import synthetic

settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


@pytest.fixture(scope="module")
def recording() -> Recording:
    return parse_recording(json.dumps(synthetic.document()), "synthetic")


@pytest.fixture(scope="module")
def space(recording: Recording) -> Space:
    tunables = [Tunable(name=name, values=values) for name, values in recording.tunables.items()]
    return Space(tunables, valid_keys=recording.entries)

"""Fixtures of the synthetic recording. Examples of Hypothesis have no time limit, because machines may be busy."""

import json

import pytest
from hypothesis import HealthCheck, settings

from evo.space import Space, Tunable
from evo.space.recording import Recording, parse_recording
from tests.data import synthetic

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="module")
def recording() -> Recording:
    return parse_recording(json.dumps(synthetic.document()), "synthetic")


@pytest.fixture(scope="module")
def space(recording: Recording) -> Space:
    tunables = [Tunable(name=name, values=values) for name, values in recording.tunables.items()]
    return Space(tunables, valid_keys=recording.entries)

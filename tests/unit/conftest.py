"""The synthetic recording as a search space."""

import json

import pytest

from evo.space import Space, Tunable
from evo.space.recording import Recording, parse_recording
from tests.data import synthetic


@pytest.fixture(scope="module")
def recording() -> Recording:
    return parse_recording(json.dumps(synthetic.document()), "synthetic")


@pytest.fixture(scope="module")
def space(recording: Recording) -> Space:
    tunables = [Tunable(name=name, values=values) for name, values in recording.tunables.items()]
    return Space(tunables, valid_keys=recording.entries)

"""Each starting config of a family can be built for every case, including untimed cases."""

from pathlib import Path

import pytest

from evo.device.estimate.target import known
from tests.starts import SEARCHED, built_starts
from tests.tiers import one_in
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError


@pytest.mark.slow
@pytest.mark.parametrize(("family", "problem"), one_in(9, SEARCHED))
def test_starting_configs_can_be_built_for_every_case(family: str, problem: str, tmp_path: Path) -> None:
    try:
        starts = built_starts(family, problem, known("sm_90"), tmp_path)
    except NoNvrtcError as error:
        pytest.skip(str(error))
    assert starts
    for built in starts:
        assert built.refusal is None
        assert not built.uncovered

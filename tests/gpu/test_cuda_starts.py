"""Where families say a search begins, built by the compiler of the machine with the GPU, which may be older.

CUDA 13.0 has unrolled dozens of turns of a loop that 13.5 leaves alone, and spilled what they needed.
"""

from pathlib import Path

import pytest

from evo.device import Device
from tests.starts import SEARCHED, built_starts


@pytest.mark.gpu
@pytest.mark.parametrize(("family", "problem"), SEARCHED)
def test_what_a_search_begins_with_here_is_refused_nowhere(
    gpu: Device, family: str, problem: str, tmp_path: Path
) -> None:
    for built in built_starts(family, problem, gpu, tmp_path):
        assert built.refusal is None

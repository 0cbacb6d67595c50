"""Starting configs of families compile with the CUDA version of the GPU machine, which may be an older version.

For example, CUDA 13.0 unrolled dozens of iterations of a loop and spilled registers; 13.5 does not unroll that loop.
"""

from pathlib import Path

import pytest

from evo.device import Device
from tests.starts import SEARCHED, built_starts


@pytest.mark.gpu
@pytest.mark.parametrize(("family", "problem"), SEARCHED)
def test_starting_configs_compile_with_the_compiler_of_the_gpu_machine(
    gpu: Device, family: str, problem: str, tmp_path: Path
) -> None:
    for built in built_starts(family, problem, gpu, tmp_path):
        assert built.refusal is None

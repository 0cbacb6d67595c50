"""The host and support.cu compute the same checksum of the known-good CUDA kernel."""

import re
from importlib.resources import files

import numpy as np

from workers.backends.cuda.support import checksum

WORD = 2**64


def test_host_checksum_equals_the_checksum_of_the_cuda_kernel() -> None:
    """The test repeats the computation of support.cu, byte by byte, with its constants."""
    source = files("workers.backends.cuda").joinpath("support.cu").read_text()
    steps = [(int(shift), int(factor, 16)) for shift, factor in re.findall(r">> (\d+)\)\) \* (0x\w+)ull", source)]
    (last,) = re.findall(r"return x \^ \(x >> (\d+)\);", source)
    assert len(steps) == 2
    assert "mix(i * 256 + span.bytes[i] + 1)" in source
    values = np.random.default_rng(1).integers(0, 256, 1000, np.uint8)
    total = 0
    for index, value in enumerate(values.tolist()):
        mixed = index * 256 + value + 1
        for shift, factor in steps:
            mixed = (mixed ^ mixed >> shift) * factor % WORD
        total += mixed ^ mixed >> int(last)
    assert checksum(values) == total % WORD

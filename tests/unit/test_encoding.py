"""Codes are decoded as the formats specify, and values are rounded to nearest, ties to even."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evo.family import DTYPES
from evo.reference.encoding import FORMATS, decoded, encoded, is_floating, stored
from workers.backends.cpu.memory import HostBuffers
from workers.backends.distance import POISON
from workers.build.kernel import Argument

KNOWN = [
    ("float8_e4m3", [0x00, 0x01, 0x07, 0x08, 0x38, 0x7E, 0xC0], [0, 2.0**-9, 7 * 2.0**-9, 2.0**-6, 1, 448, -2]),
    ("float8_e5m2", [0x01, 0x04, 0x3C, 0x7B, 0x7C, 0xC0], [2.0**-16, 2.0**-14, 1, 57344, np.inf, -2]),
    ("bfloat16", [0x3F80, 0x4049, 0xFF80, 0x0001], [1, 3.140625, -np.inf, 2.0**-133]),
]
EIGHT_BITS = ("float8_e4m3", "float8_e5m2")


@pytest.mark.parametrize(("dtype", "codes", "numbers"), KNOWN)
def test_eight_bit_codes_decode_as_specified(dtype: str, codes: list[int], numbers: list[float]) -> None:
    assert decoded(np.array(codes, stored(dtype)), dtype).tolist() == numbers


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_finite_code_is_unchanged_by_decoding_and_encoding(dtype: str) -> None:
    codes = np.arange(1 << FORMATS[dtype].bits).astype(stored(dtype))
    numbers = decoded(codes, dtype)
    finite = np.isfinite(numbers)
    assert np.array_equal(encoded(numbers, dtype)[finite], codes[finite])
    assert np.isnan(decoded(encoded(np.array([np.nan, -np.nan]), dtype), dtype)).all()
    assert np.isnan(decoded(np.full(1, POISON * 0x0101, np.uint16).astype(stored(dtype)), dtype)).all()


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_encoding_rounds_to_nearest_ties_to_even(dtype: str) -> None:
    numbers = decoded(np.arange(FORMATS[dtype].largest + 1, dtype=np.uint8), dtype).astype(np.float64)
    rng = np.random.default_rng(3)
    between = np.concatenate([rng.uniform(low, high, 5) for low, high in pairwise(numbers)])
    values = between.astype(np.float32)
    found = np.abs(decoded(encoded(values, dtype), dtype) - values)
    assert np.array_equal(found, np.abs(values[:, None] - numbers).min(axis=1).astype(np.float32))
    ties = (numbers[:-1] + numbers[1:]) / 2
    assert not np.any(encoded(-ties, dtype) & 1)


def test_eight_bit_formats_saturate_and_bfloat16_overflows() -> None:
    large = np.array([1e30, -1e30, np.inf])
    assert decoded(encoded(large, "float8_e4m3"), "float8_e4m3").tolist() == [448, -448, 448]
    assert decoded(encoded(np.array([3.4e38]), "bfloat16"), "bfloat16").tolist() == [np.inf]


def test_encoding_returns_values_of_numpy_dtypes_unchanged() -> None:
    values = np.arange(3, dtype=np.float32)
    assert decoded(values, "float32") is values
    assert encoded(values, "float32") is values
    assert {dtype for dtype in DTYPES if is_floating(dtype)} == {each for each in DTYPES if "float" in each}


def test_distance_of_a_coded_output_uses_its_decoded_values() -> None:
    y = Argument(name="y", role="output", dtype="float8_e4m3", shape=(2, 3))
    buffers = HostBuffers([y], {})
    assert buffers.bytes_held == 6
    buffers.arrays["y"].values[0] = encoded(np.array([1.0, 2.0, -448.0]), "float8_e4m3")
    far = buffers.distance("y", np.array([[1.0, 2.5, -448.0], [0.0, 0.0, 0.0]]))
    assert (far.max_abs, far.squares, far.unwritten, far.not_finite) == (0.5, 0.25, 3, 3)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@settings(max_examples=300)
@given(bits=st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50))
def test_encoded_float_is_the_nearest_representable_number(dtype: str, bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    numbers = np.unique(decoded(np.arange(256, dtype=np.uint8), dtype))
    numbers = numbers[np.isfinite(numbers)].astype(np.float64)
    finite = values[np.isfinite(values)].astype(np.float64)
    nearest = np.abs(np.clip(finite, numbers[0], numbers[-1])[:, None] - numbers).min(axis=1, initial=np.inf)
    chosen = decoded(encoded(values, dtype), dtype)
    assert np.array_equal(np.isnan(chosen), np.isnan(values))
    assert np.array_equal(np.abs(np.clip(finite, numbers[0], numbers[-1]) - chosen[np.isfinite(values)]), nearest)

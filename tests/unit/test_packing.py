"""Arrays that are packed for the cache are unpacked unchanged, and without copying."""

import numpy as np

from workers.measure.family.packing import pack, unpack

ARRAYS = {
    "reference/out": np.arange(6.0).reshape(2, 3),
    "error/out": np.asarray(1e-6),
    "transposed": np.arange(6, dtype=np.int16).reshape(2, 3).T,
    "bools": np.array([True, False, True]),
    "empty": np.zeros((0, 4), np.float16),
    "swapped": np.array([1, 2], ">i4"),
    "name with\nlines": np.array([7], np.uint8),
}


def test_packed_arrays_keep_name_dtype_shape_and_values() -> None:
    found = unpack(pack(ARRAYS))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def test_unpacked_arrays_share_the_packed_memory_and_are_read_only() -> None:
    packed = pack(ARRAYS)
    whole = np.frombuffer(packed, np.uint8)
    for array in unpack(packed).values():
        assert not array.size or np.shares_memory(array, whole)
        assert not array.flags.writeable

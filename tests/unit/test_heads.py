"""The random inputs of attention reveal kernels with a wrong softmax."""

import numpy as np
import pytest

from evo.reference.heads import EXTREME, draw_heads


def scores(shapes: dict[str, tuple[int, ...]], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    drawn = draw_heads(np.random.default_rng(seed), shapes, "peaked")
    q, k = drawn["q"].astype(np.float64), drawn["k"].astype(np.float64)
    k = k.repeat(q.shape[1] // k.shape[1], axis=1)
    scaled: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return scaled


@pytest.mark.parametrize(("queries", "heads"), [(128, 2), (1, 32)])
def test_most_attention_rows_have_one_dominant_key_or_only_low_scores(queries: int, heads: int) -> None:
    found = scores({"q": (1, heads, queries, 64), "k": (1, 2, 128, 64), "v": (1, 2, 128, 64)}, seed=1)
    first, second = np.moveaxis(np.sort(found, axis=-1)[..., -2:], -1, 0)[::-1]
    buried = np.all(np.abs(found + EXTREME) < 1e-3, axis=-1)
    towers = first - second > 0.8 * EXTREME
    falls = (first - second > 10) & ~towers
    assert (buried | towers | falls).mean() > 0.9
    assert min(buried.mean(), towers.mean(), falls.mean()) > 0.1
    assert np.all(found.argmax(axis=-1)[towers] >= 64)


def test_dominant_late_keys_differ_between_attention_heads() -> None:
    found = scores({"q": (2, 8, 64, 32), "k": (2, 8, 512, 32), "v": (2, 8, 512, 32)}, seed=2)
    late = [
        set(head.argmax(axis=-1)[head.max(axis=-1) > 0.8 * EXTREME].tolist()) for head in found.reshape(16, 64, 512)
    ]
    assert all(len(each) <= 1 for each in late)
    assert len(set().union(*late)) > 8


def test_attention_inputs_have_the_requested_standard_deviation_and_offset() -> None:
    shapes = dict.fromkeys("qkv", (1, 1, 64, 64))
    drawn = draw_heads(np.random.default_rng(0), shapes, "small", least_deviation=0.05)
    assert drawn["v"].std() == pytest.approx(0.05, rel=0.1)
    assert draw_heads(np.random.default_rng(0), shapes, "offset")["k"].mean() == pytest.approx(-2, abs=0.1)

"""Records a program's calls to tensor functions as a suite. The weight of a problem is its number of calls."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from evo.family.problem import problem_key
from evo.trial import Value

Recognised: TypeAlias = tuple[str, dict[str, Value]]
"""Name of the family that computes a call, and the problem."""

DTYPES = ("float32", "float16", "bfloat16")


class Tensor(Protocol):
    """Interface of a tensor: its shape, dtype and memory layout."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> object: ...

    def is_contiguous(self) -> bool: ...

    def transpose(self, dim0: int, dim1: int, /) -> "Tensor": ...


class NotServed(ValueError):
    """Raised if no family computes a call. The message contains the reason."""


class Recorder:
    """Counts a program's calls of PyTorch functions by problem.

    Attributes:
        counts: number of calls, by family and problem.
        skipped: number of calls that no family computes, by function and reason.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.skipped: Counter[tuple[str, str]] = Counter()
        self._problems: dict[tuple[str, str], Mapping[str, Value]] = {}

    def observe(self, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Count one call of a function in `FUNCTIONS`. Calls of other functions are ignored."""
        recognise = FUNCTIONS.get(function)
        if recognise is None:
            return
        try:
            family, problem = recognise(*arguments, **named)
        except NotServed as error:
            self.skipped[function, str(error)] += 1
            return
        key = family, problem_key(problem)
        self._problems.setdefault(key, problem)
        self.counts[key] += 1

    def suite(self) -> str:
        """Return the suite as the text of a TOML file, with the most frequent calls first."""
        parts = ['goal = "time"\n']
        numbers: Counter[str] = Counter()
        for (family, text), count in self.counts.most_common():
            numbers[family] += 1
            fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self._problems[family, text].items())
            lines = ("[[call]]", f'name = "{family}-{numbers[family]}"', f'family = "{family}"')
            parts.append("\n".join((*lines, f"problem = {{ {fields} }}", f"weight = {count}", "")))
        return "\n".join(parts)


def _attention(  # noqa: PLR0917 — the signature is that of PyTorch
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: object = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Recognised:
    if attn_mask is not None or dropout_p:
        raise NotServed("the call has dropout" if attn_mask is None else "the call has a mask")
    if len(query.shape) != 4:
        raise NotServed(f"the queries have {len(query.shape)} dimensions instead of 4")
    if tuple(key.shape) != tuple(value.shape):
        raise NotServed("keys and values have different shapes")
    batch, heads, length, size = map(int, query.shape)
    kv_heads, keys = int(key.shape[1]), int(key.shape[2])
    if scale is not None and abs(scale * size**0.5 - 1.0) > 1e-6:
        raise NotServed("the scale is not 1 / sqrt(D)")
    if is_causal and keys != length:
        raise NotServed(
            "is_causal=True with different numbers of queries and keys: PyTorch's causal mask is aligned to the top "
            "left, the families' mask to the bottom right"
        )
    dtype, layout = _dtype(query), _layout(query)
    if length == 1 and keys > 1:
        sizes: dict[str, Value] = {"B": batch, "H": heads, "KV": kv_heads, "S": keys, "Q": 1, "D": size}
        return "sdpa_decode", {**sizes, "dtype": dtype, **layout}
    grouped: dict[str, Value] = {} if kv_heads == heads else {"KV": kv_heads}
    crossed: dict[str, Value] = {} if keys == length else {"S_KV": keys}
    terms = {"B": batch, "H": heads, **grouped, "S": length, **crossed, "D": size}
    return "sdpa", {**terms, "causal": bool(is_causal), "dtype": dtype, **layout}


def _layout(query: Tensor) -> dict[str, Value]:
    """Return the problem field for the memory layout of the queries. The dict is empty for the default layout.

    The layout of keys and values does not matter, because exported packages copy them into the layout of the queries.

    Raises:
        NotServed: the queries have a layout that no family supports.
    """
    if query.is_contiguous():
        return {}
    if query.transpose(1, 2).is_contiguous():
        return {"layout": "bshd"}
    raise NotServed("a tensor is not contiguous in memory")


def _rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: object = None, eps: float | None = None
) -> Recognised:
    _check_normalization(normalized_shape, weight=weight)
    return "rmsnorm", {**_rows(input), "residual": False, "dtype": _dtype(input)}


def _layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: object = None,
    bias: object = None,
    eps: float = 1e-5,
) -> Recognised:
    _check_normalization(normalized_shape, weight=weight, bias=bias)
    return "layernorm", {**_rows(input), "residual": False, "dtype": _dtype(input)}


def _check_normalization(normalized_shape: Sequence[int], **parameters: object) -> None:
    if len(normalized_shape) != 1:
        raise NotServed(f"the call normalizes over {len(normalized_shape)} dimensions instead of 1")
    for name, value in parameters.items():
        if value is None:
            raise NotServed(f"the call has no {name}")


def _softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: object = None) -> Recognised:
    rank = len(input.shape)
    if dim is None or rank == 0 or dim % rank != rank - 1:
        raise NotServed("dim is not the last dimension")
    if dtype not in (None, input.dtype):
        raise NotServed("dtype differs from the dtype of the input")
    return "softmax", {**_rows(input), "dtype": _dtype(input)}


def _linear(input: Tensor, weight: Tensor, bias: object = None) -> Recognised:
    if len(weight.shape) != 2:
        raise NotServed("the weight is not a matrix")
    columns, depth = map(int, weight.shape)
    epilogue = "none" if bias is None else "bias"
    size = {"M": _rows(input)["rows"], "N": columns, "K": depth}
    return "gemm", {**size, "b_layout": "nk", "epilogue": epilogue, "dtype": _dtype(input)}


def _swiglu(gate: Tensor, up: Tensor) -> Recognised:
    if tuple(gate.shape) != tuple(up.shape):
        raise NotServed("gate and up have different shapes")
    return "swiglu", {**_rows(gate), "dtype": _dtype(gate)}


FUNCTIONS: Mapping[str, Callable[..., Recognised]] = {
    "scaled_dot_product_attention": _attention,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "softmax": _softmax,
    "linear": _linear,
    "swiglu": _swiglu,
}
"""Functions that convert the arguments of a call to a problem, by the name of the called function."""


def _rows(input: Tensor) -> dict[str, Value]:
    if not input.is_contiguous():
        raise NotServed("a tensor is not contiguous in memory")
    rows, cols = 1, int(input.shape[-1])
    for extent in input.shape[:-1]:
        rows *= int(extent)
    if not rows or not cols:
        raise NotServed("a tensor has no elements")
    return {"rows": rows, "cols": cols}


def _dtype(tensor: Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise NotServed(f"a tensor has dtype {name}")
    return name

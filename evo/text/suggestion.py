"""Names and numbers that a user probably means, for error messages."""

import difflib
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence

MAX_SHOWN = 100
"""Maximum number of characters of a wrong name that an error message repeats."""

_LONG = 1000
"""Maximum number of characters of the list of names in a message that suggests a name. A longer list is omitted."""

_ALIASES: Sequence[tuple[str, Sequence[str]]] = (
    (r"(?:sm|compute|cc|arch)?[ _-]?(\d{1,2})[._]?(\d)[af]?", (r"sm_\1\2",)),
    (r"(?:geforce|rtx|nvidia|[ _-])*(?:40\d\d|l40s?|6000ada|ada).*", ("sm_89",)),
    (r"(?:nvidia|[ _-])*(?:h800|h20(?!0)|gh200|hopper).*", ("sm_90",)),
    (r"(?:nvidia|[ _-])*(?:a800|a30|ampere).*", ("sm_80",)),
    (r"(?:gpu|nvidia|cuda|hip|rocm)?[ :_-]?\d*", ("cuda",)),
    (r"host|native|processor|x86(?:_64)?|none", ("cpu",)),
    (r"optuna|bayes.*|bo|smac|gp", ("tpe",)),
    (r"ga|genetic.*|cma.*|de|diff.*|.*annealing|pso|greedy.*|hill.*|mls|ils", ("evolution",)),
    (r"grid.*|brute.*|exhaustive|sobol|uniform", ("random",)),
    (r"auto|best|default", ("portfolio",)),
    (r"fp64|f64|double", ("float64",)),
    (r"fp32|f32|float|single", ("float32",)),
    (r"fp16|f16|half|__half", ("float16",)),
    (r"bf16|bfloat|__nv_bfloat16", ("bfloat16",)),
    (r"mat_?mul|mm|bmm|linear|dot", ("gemm",)),
    (r"(?:flash_?)?(?:attention|attn|mha)\d?", ("sdpa",)),
    (r"--(?:n[-_])?(?:trials?|iter.*|evals?|max[-_](?:evals|trials|fevals))|-n", ("--trials",)),
    (r"--(?:time|timeout|time[-_]limit|budget|duration|max[-_]time|seconds|hours)|-t", ("--minutes",)),
    (r"--(?:gpus?|cuda)", ("--device cuda",)),
    (r"--cpu", ("--device cpu",)),
    (r"--(?:backend|kind)", ("--device",)),
    (r"--(?:arch|sm|gpu[-_]arch|compute|gpu[-_]architecture)", ("--target",)),
    (r"--(?:size|sizes|shape|shapes|problem[-_]sizes?|dims?|params?)|-p", ("--problem",)),
    (r"--(?:tuner|sampler|algorithm|algo|optimizer|method)", ("--strategy",)),
    (r"--(?:random[-_]seed|rng)", ("--seed",)),
    (r"--(?:metric|goal)", ("--objective",)),
    (r"--(?:database|storage)", ("--db",)),
    (r"--(?:host|server|service|address)", ("--url",)),
    (r"--(?:out|output|dir|to)|-o", ("--output", "--out", "--to")),
    (r"tune|run|optimi[sz]e|start|benchmark|autotune", ("search",)),
    (r"list|ls|status|ps|history|jobs", ("list", "show", "searches")),
    (r"info|describe|kernels", ("families",)),
    (r"server|api|dashboard|web|ui", ("serve",)),
    (r"agent|daemon", ("worker",)),
    (r"best|get|results?|show", ("show", "champion", "report")),
    (r"check|diagnose|env", ("doctor",)),
    (r"time|verify|test|profile", ("measure",)),
    (r"rm|remove", ("delete",)),
    (r"kill|abort", ("cancel",)),
    (r"init|create", ("new",)),
    (r"max.*", ("maximise",)),
    (r"min.*", ("minimise",)),
    (r"version", ("--version",)),
    (r"help", ("--help",)),
)
"""Patterns (in lower case) of names from other tools, each with the kernel-evo names that have the same meaning."""


def closest(name: str, known: Collection[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that a user probably means; None if no name is similar.

    A name matches if it differs only in case and separators, if it is another tool's name for the same thing
    (`_ALIASES`), if it is misspelt, or if it is one word of exactly one known name. If a name with dots does not match,
    its part after the last dot is tried.

    Args:
        name: the wrong name.
        known: all names.
        cutoff: minimum similarity of a misspelt name, from 0 to 1.
    """
    name = name[:MAX_SHOWN].strip().strip("'\"")
    lower = name.lower()
    if same := [entry for entry in known if _letters(entry) == _letters(name)]:
        return same[0]
    for pattern, names in _ALIASES:
        for text, start in ((lower, 0), (f"--{lower}", 2)):  # fields are named like options
            if (found := re.fullmatch(pattern, text)) is not None:
                for meant in (found.expand(each)[start:] for each in names):
                    if meant.partition(" ")[0] in known:
                        return meant
    if near := difflib.get_close_matches(lower, [entry.lower() for entry in known], n=1, cutoff=cutoff):
        return next(entry for entry in known if entry.lower() == near[0])
    longer = [entry for entry in known if _part(name, entry)]
    if len(longer) == 1:
        return longer[0]
    last = name.rpartition(".")[2]
    return closest(last, known, cutoff=cutoff) if last not in ("", name) else None


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


_NUMBER = r"(0x[0-9a-f]+|\d*\.?\d+(?:e[+-]?\d{1,2})?|\d+\.)([a-z%]*)"
_PRODUCT = re.compile(rf"(-?){_NUMBER}(?:(\*\*|<<|\*|/){_NUMBER})?")
BINARY: Mapping[str, float] = {
    "": 1,
    **dict.fromkeys(("k", "ki", "kb", "kib"), 1 << 10),
    **dict.fromkeys(("m", "mi", "mb", "mib"), 1 << 20),
    **dict.fromkeys(("g", "gi", "gb", "gib"), 1 << 30),
}
"""Factors of size suffixes. A factor is a power of 1024, as is usual for the sizes of kernels."""


_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,4}):(\d{1,2}(?:\.\d+)?)")
_DURATION = re.compile(r"p?t?((?:\d*\.?\d+[a-z]+)+)")


def numbers_meant(text: str, units: Mapping[str, float] = BINARY) -> list[int | float]:
    """Return the numbers that a string may mean: an empty list if this is unclear, several numbers if it is ambiguous.

    If the units are units of time, durations such as ``1h30m``, ``PT5M`` and ``0:05:00`` are understood as well. The
    text ``1:30`` may be minutes and seconds, or hours and minutes.

    Args:
        text: the text.
        units: factors by suffix, in lower case.
    """
    if (number := number_meant(text, units)) is not None:
        return [number]
    plain = re.sub(r"[\s'\"=]", "", text[:MAX_SHOWN].lower())
    if "h" not in units:
        return []
    if (clock := _CLOCK.fullmatch(plain)) is not None:
        first, second, third = float(clock[1] or 0), float(clock[2]), float(clock[3])
        seconds = [3600 * first + 60 * second + third, *([] if clock[1] else [3600 * second + 60 * third])]
        return [_shortest(each * units["s"]) for each in seconds]
    if (found := _DURATION.fullmatch(plain)) is None:
        return []
    parts = re.findall(r"(\d*\.?\d+)([a-z]+)", found[1])
    known = all(unit in units for _, unit in parts)
    return [_shortest(sum(float(each) * units[unit] for each, unit in parts))] if known else []


def _shortest(value: float) -> int | float:
    """Return a number as int if it is whole."""
    return int(value) if value == int(value) else value


def number_meant(text: str, units: Mapping[str, float] = BINARY) -> int | float | None:
    """Return the number that a string such as ``1k``, ``1,024``, ``2^10``, ``1<<10`` or ``0,5`` means; None if unclear.

    Args:
        text: the text.
        units: factors by suffix, in lower case.
    """
    plain = re.sub(r"[\s'\"=]", "", text[:MAX_SHOWN].lower()).replace("^", "**")
    plain = re.sub(r"(?<=\d)[,_](?=\d{3}(?!\d))", "", plain).replace(",", ".")
    if (found := _PRODUCT.fullmatch(plain)) is None:
        return None
    sign, first, unit, between, second, other = found.groups()
    if unit not in units or (other or "") not in units:
        return None
    value = _parsed(first) * units[unit]
    if between is not None:
        factor = _parsed(second) * units[other]
        if (between in ("**", "<<") and max(value, factor) > 1024) or (between == "/" and not factor):
            return None
        value = _OPERATORS[between](value, factor)
    return _shortest(-value if sign else value)


_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "**": lambda value, factor: value ** min(factor, 99),
    "<<": lambda value, factor: value * 2 ** min(factor, 99),
    "*": operator.mul,
    "/": operator.truediv,
}


def truth_meant(text: str) -> bool | None:
    """Return the truth value that a word or number such as ``yes``, ``T`` or ``0`` means; None if unclear."""
    return next((truth for truth, words in _TRUTHS.items() if text.strip().lower() in words), None)


_TRUTHS: Mapping[bool, Collection[str]] = {
    True: ("true", "t", "yes", "y", "on", "1", "1.0", "enable", "enabled"),
    False: ("false", "f", "no", "n", "off", "0", "0.0", "disable", "disabled", "none", "null"),
}


def _parsed(text: str) -> float:
    return int(text, 16) if text.startswith("0x") else float(text)


def unknown(name: str, known: Collection[str], what: str, *, reason: str = "there is no `{}`") -> str:
    """Return the error message for an unknown name.

    The message suggests the closest known name and lists all names. A very long list is omitted if there is a
    suggestion.

    Args:
        what: plural noun for the known names, e.g. ``targets``.
        reason: start of the message, with ``{}`` in place of the name. The default is for names that a user asks for,
            not for names that a user defines.
    """
    name = name[:MAX_SHOWN]
    meant = closest(name, known)
    start = reason.format(name) + ("." if meant is None else f"; did you mean `{meant}`?")
    listed = ", ".join(sorted(known)) or "none"
    return start if meant and len(listed) > _LONG else f"{start} {what[0].upper()}{what[1:]}: {listed}"


def _part(name: str, entry: str) -> bool:
    """Return True if `name` is one of the words of the name `entry`, e.g. ``L4`` of ``NVIDIA L4``."""
    return name.lower() in re.findall(r"[a-z0-9]+", entry.lower())

"""Selects the exported kernel by the shapes of the arguments. Keep this file in its folder, which contains the kernels.

    from dispatch import Dispatch

    kernels = Dispatch()
    outputs = kernels(**inputs)                       # arrays by argument name; their shapes select the kernel
    outputs = kernels(causal=True)(**inputs)          # if the shapes are ambiguous: select by fields of the problem

``python dispatch.py`` lists the kernels.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any


class Dispatch:
    """The kernels of one family for several problems. Each kernel is loaded at its first use.

    Attributes:
        table: problem, folder and argument shapes of each kernel, as in dispatch.json.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        self._folder = Path(folder).absolute()
        self.table: list[dict[str, Any]] = json.loads((self._folder / "dispatch.json").read_text("utf-8"))["kernels"]
        self._loaded: dict[str, Any] = {}

    def __call__(self, **given: Any) -> Any:
        """Call the kernel that was compiled for the given arrays and problem fields. Without arrays, return the kernel.

        Raises:
            LookupError: no kernel, or more than one kernel, matches.
            TypeError: an argument is neither an array nor a valid value of a field.
        """
        arrays = {name: value for name, value in given.items() if self._is_array(name, value)}
        fields = {name: _plain(name, value) for name, value in given.items() if name not in arrays}
        found = [each for each in self.table if _fits(each, arrays) and _equals(each, fields)]
        if len(found) != 1:
            raise LookupError(self._explained(found, arrays, fields))
        kernel = self._kernel(found[0]["folder"])
        return kernel(**arrays) if arrays else kernel

    def _is_array(self, name: str, value: Any) -> bool:
        """Return True if a value is an array, not a field of the problem.

        A value with an empty shape, such as a NumPy scalar, is only an array if a kernel's argument with this name has
        an empty shape.
        """
        shapes = [each["arguments"][name]["shape"] for each in self.table if name in each["arguments"]]
        return hasattr(value, "shape") and (len(value.shape) > 0 or [] in shapes)

    def _kernel(self, name: str) -> Any:
        if name not in self._loaded:
            path = self._folder / name / "kernel.py"
            spec = importlib.util.spec_from_file_location(f"{self._folder.name}_{name}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self._loaded[name] = module.Kernel(path.parent)
        return self._loaded[name]

    def _explained(self, found: list[dict[str, Any]], arrays: dict[str, Any], fields: dict[str, Any]) -> str:
        asked = [f"{name} {tuple(array.shape)} {_dtype(array)}" for name, array in arrays.items()]
        asked += [f"{name}={value}" for name, value in fields.items()]
        if found:
            varying = {name for each in found for name in each["problem"] if _differs(name, found)}
            return f"{', '.join(asked)}: {len(found)} kernels fit; select one by {', '.join(sorted(varying))}"
        there = "; ".join(
            ", ".join(f"{name}={value}" for name, value in each["problem"].items()) for each in self.table
        )
        return f"no kernel for {', '.join(asked)}; available kernels: {there}"


def _fits(each: dict[str, Any], arrays: dict[str, Any]) -> bool:
    """Return True if all arrays match the kernel's arguments in shape and dtype."""
    arguments = each["arguments"]
    return all(
        name in arguments
        and list(array.shape) == arguments[name]["shape"]
        and _dtype(array) in (arguments[name]["dtype"], arguments[name]["stored"])
        for name, array in arrays.items()
    )


def _plain(name: str, value: Any) -> str | bool | int | float:
    """Return a field's value as a Python value; NumPy numbers are converted.

    Raises:
        TypeError: the value is not valid for a field.
    """
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, (str, bool, int, float)):
        kinds = "an array or a problem field (text, bool, number)"
        raise TypeError(f"{name} must be {kinds}; it is a {type(value).__name__}")
    return plain


def _equals(each: dict[str, Any], fields: dict[str, Any]) -> bool:
    return all(name in each["problem"] and each["problem"][name] == value for name, value in fields.items())


def _differs(name: str, found: list[dict[str, Any]]) -> bool:
    return any(each["problem"].get(name) != found[0]["problem"].get(name) for each in found)


def _problem(each: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in each["problem"].items())


def _dtype(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


def main() -> None:
    """Print the kernels with their times and problems."""
    for each in Dispatch().table:
        print(f"{each['folder']:<28}{each['time_us']:>12.4g} µs  {_problem(each)}")


if __name__ == "__main__":
    main()

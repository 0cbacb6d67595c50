"""A device kind that a package of its own adds: a language of one statement per element, run on the CPU."""

from evo.device import Kind

KIND = Kind(name="toy", rank=5, limits=frozenset({"cores"}), sources="own", on_host=True, suffixes=("toy", "so"))

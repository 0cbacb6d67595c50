"""A device kind that an installed package adds. Its language has one statement per element, and runs on the CPU."""

from evo.device import Kind

KIND = Kind(name="toy", rank=5, limits=frozenset({"cores"}), sources="own", on_host=True, suffixes=("toy", "so"))

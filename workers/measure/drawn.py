"""Inputs of the correctness cases without expected outputs, for programs outside the runner."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workers.build.cache import Cache
from workers.measure.family.expected_output import Arrays
from workers.measure.family.reference import Reference
from workers.runner.protocol import Open, Save, Saved


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The first inputs of each case, by case name."""

    inputs: Mapping[str, Arrays]

    @classmethod
    def of(cls, terms: Open) -> "Drawn":
        """Draw them with the seeds of an `Open` request.

        Raises:
            FamilyError: reference.py does not keep its contract.
        """
        reference = Reference(Path(terms.reference), terms.family_digest, Cache(Path(terms.folder)))
        with ThreadPoolExecutor(max(1, len(terms.cases))) as pool:
            drawn = pool.map(lambda plan: reference.draw(plan, plan.seeds[0]), terms.cases)
            return cls(inputs={plan.name: inputs for plan, inputs in zip(terms.cases, drawn, strict=True)})

    def save(self, request: Save) -> Saved:
        """Write the inputs of a case into a folder."""
        for name, values in self.inputs[request.case].items():
            (Path(request.folder) / f"{name}.bin").write_bytes(np.ascontiguousarray(values).tobytes())
        return Saved()

"""Optuna's TPE sampler; an invalid suggestion is changed to the nearest valid config."""

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.initial_design import InitialDesign, learning
from evo.strategy.parts.observations import Observations
from evo.trial import Proposal
from evo.trial.history import History


@strategy("tpe")
class Tpe:
    """Multivariate TPE with constant liar for pending trials. The time of a proposal grows with the history.

    If the suggested or repaired config was proposed before, a random new config that differs from it in one tunable is
    proposed or, if there is none, a config far from all trials.
    """

    def __init__(self, context: Context) -> None:
        from evo.strategy.study.history import OptunaStudy  # importing Optuna takes a second

        self._space = context.space
        self._seen = Observations(context.space)
        self._initial_design = InitialDesign(context)
        self._study = OptunaStudy(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        seen = self._seen
        seen.refresh(history)
        if learning(seen):
            return self._initial_design.spread(seen, rng)
        row = self._study.ask(history, int(rng.integers(2**31)))
        config = self._space.decode(row) if self._space.valid(row[None, :])[0] else self._space.repair(row, rng)
        if self._space.key(config) in seen.keys:
            new = [each for each in self._space.neighbours(config, "hamming") if self._space.key(each) not in seen.keys]
            if not new:
                return self._initial_design.spread(seen, rng)
            config = new[int(rng.integers(len(new)))]
        return Proposal(config=config, origin="tpe")

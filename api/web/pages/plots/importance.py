"""Importance of tunables, computed by Optuna's PED-ANOVA on an in-memory study of the trials."""

import warnings
from collections.abc import Sequence

from api.web.pages.plots.figure import Figure, Plot, Table, label, nothing
from api.web.pages.plots.slices import varied
from db.queries.landscape import Landscape, Point

TRIALS = 1000
FEWEST = 12
"""Minimum number of measured trials. With fewer, the importances would be noise."""


def importances(landscape: Landscape, *, estimated: bool = False) -> Plot:
    """Plot how strongly each tunable distinguishes the fastest tenth of the trials from all trials.

    If the search only estimates times, the plot only states why importances are not computed.
    """
    if estimated:
        return nothing(
            "Importances are not computed from estimates: they would describe the estimate, not the time on a GPU."
        )
    points = landscape.even(TRIALS)
    if len(points) < FEWEST or len(varied(points)) < 2:
        return nothing(f"Importances need at least {FEWEST} measured trials with different settings.")
    found = evaluate(points)
    names, shares = list(found), list(found.values())
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": shares[::-1],
        "y": [label(name) for name in names[::-1]],
        "text": [f"{share:.0%}" for share in shares[::-1]],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": "%{y}: %{text}<extra></extra>",
        "marker": {"color": "@accent", "opacity": 0.8},
    }
    layout = {
        "xaxis": {"tickformat": ".0%", "rangemode": "tozero", "title": "Share of the importance"},
        "yaxis": {"title": "", "automargin": True, "type": "category"},
        "showlegend": False,
    }
    top = ", ".join(f"{name} {share:.0%}" for name, share in list(found.items())[:3])
    return Plot(
        summary=f"Most important: {top}.",
        figures=(Figure(data=(trace,), layout=layout, height=max(240, 60 + 28 * len(names))),),
        table=Table(
            head=("Tunable", "Importance"), rows=tuple((name, f"{share:.1%}") for name, share in found.items())
        ),
        note=f"Optuna's PED-ANOVA over {len(points):,} measured trials shows which tunables distinguish the fastest "
        "tenth. This is an association among the tried configs, not a cause.",
    )


def evaluate(points: Sequence[Point]) -> dict[str, float]:
    """Return the importance of each tunable with several values, by name, largest first. The importances sum to 1."""
    import optuna
    from optuna.distributions import CategoricalDistribution
    from optuna.trial import create_trial

    optuna.logging.disable_default_handler()  # Optuna's messages must not appear in the service's log
    names = varied(points)
    choices = {name: tuple(dict.fromkeys(point.config[name] for point in points)) for name in names}
    distributions = {name: CategoricalDistribution(values) for name, values in choices.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # suppress the warning that the evaluator is experimental
        study = optuna.create_study(storage=optuna.storages.InMemoryStorage())
        study.add_trials(
            [
                create_trial(
                    params={name: point.config[name] for name in names},
                    distributions=dict(distributions),
                    value=point.time_us,
                )
                for point in points
            ]
        )
        found = optuna.importance.get_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    return {name: float(share) for name, share in found.items()}

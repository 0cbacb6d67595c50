"""Reads the configs of ``--warm-start`` from recorded results of other tools or searches, best config first."""

import difflib
import gzip
import math
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evo.errors import InvalidInput
from evo.space.recording import fastest, parse_recording
from evo.text.encoding import not_gzip
from evo.text.shell import quoted, with_home

if TYPE_CHECKING:
    from optuna.study import Study

OPTION = "--warm-start"
SQLITE = b"SQLite format 3\0"
WANTED = "use a file of recorded results (.json, .json.gz), or an Optuna study's storage, e.g. sqlite:///study.db#NAME"
MOST = 10_000
"""Maximum number of configs that are sent. The service uses the best configs that are in the space."""


def read_warm_start(source: str) -> dict[str, Any]:
    """Read recorded configs, and return them as the field `warm_start` of a search request.

    Args:
        source: path of a Kernel Tuner cache or of T4 results (``.json``, also gzipped), or the storage URL of an Optuna
            study, e.g. ``sqlite:///study.db``. If the storage contains several studies, ``#NAME`` after the URL selects
            one.

    Raises:
        InvalidInput: the source cannot be read, or contains no config with a time.
    """
    if not source.strip():
        raise InvalidInput(OPTION, f"is empty; {WANTED}")
    return _from_study(source) if "://" in source else _from_file(with_home(source))


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
        if content.startswith(SQLITE):
            from sqlalchemy import URL

            studies = quoted(URL.create("sqlite", database=str(path)).render_as_string())
            raise InvalidInput(OPTION, f"{path} is a database; for an Optuna study in it, write --warm-start {studies}")
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig", errors="replace")
    except gzip.BadGzipFile:
        raise InvalidInput(OPTION, f"{path} {not_gzip(path)}") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = f"{path} cannot be read ({getattr(error, 'strerror', None) or error})"
        raise InvalidInput(OPTION, f"{reason}; {WANTED}") from None
    recording = parse_recording(text, path.name)
    return {"source": path.name[-200:], "configs": [dict(config) for config in fastest(recording, MOST)]}


def _from_study(address: str) -> dict[str, Any]:
    storage, _, name = address.partition("#")
    study = _study(storage, name)
    if len(study.directions) > 1:
        raise InvalidInput(OPTION, f"study {study.study_name!r} has several objectives; use a study with one objective")
    done = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE" and trial.params]
    if not done:
        raise InvalidInput(
            OPTION, f"study {study.study_name!r} has no completed trial; use a study with completed trials"
        )
    odd = [(name, value) for trial in done for name, value in trial.params.items() if not _is_tunable_value(value)]
    done = [trial for trial in done if all(map(_is_tunable_value, trial.params.values()))]
    if not done:
        reason = f"study {study.study_name!r} has no trial that can be used as a config: {odd[0][0]} is {odd[0][1]!r}"
        raise InvalidInput(OPTION, f"{reason}; values of tunables must be finite numbers, words, true or false")
    upside_down = study.direction.name == "MAXIMIZE"
    done.sort(key=lambda trial: trial.value or 0.0, reverse=upside_down)
    return {"source": f"study {study.study_name}"[:200], "configs": [dict(trial.params) for trial in done[:MOST]]}


def _is_tunable_value(value: object) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _study(storage: str, name: str) -> "Study":
    import optuna
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    shown = storage
    try:
        url = make_url(storage)
        shown = url.render_as_string(hide_password=True)
        if url.drivername.startswith("sqlite") and url.database and not Path(url.database).exists():
            raise InvalidInput(
                OPTION, f"there is no file {url.database}; {WANTED}"
            )  # otherwise, Optuna would create an empty study
        names = optuna.get_all_study_names(storage)
        if not name and len(names) == 1:
            name = names[0]
        if name not in names:
            if not names:
                raise InvalidInput(OPTION, f"{shown} contains no study; {WANTED}")
            example = f"{shown}#{difflib.get_close_matches(name, names, n=1, cutoff=0)[0]}"
            raise InvalidInput(OPTION, f"{shown} contains the studies {', '.join(names)}; choose one, e.g. {example}")
        return optuna.load_study(study_name=name, storage=storage)
    except (SQLAlchemyError, ImportError, RuntimeError) as error:
        raise InvalidInput(OPTION, f"{shown} cannot be read ({type(error).__name__}); {WANTED}") from None

"""Keeps bytecode of Python modules for the processes that this program starts.

Container images often set ``PYTHONDONTWRITEBYTECODE``, and some installers write no bytecode. Every process then
compiles every module it imports, large libraries included, and a confirmation has five processes or more.
"""

from collections.abc import Mapping

from platformdirs import user_cache_path

_REFUSED, _FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def keeping_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Python keeps bytecode in the user's cache, if it would otherwise keep none.

    Nothing is written next to sources, and a folder chosen by the user is kept.
    """
    if not environment.get(_REFUSED) or environment.get(_FOLDER):
        return dict(environment)
    return {**environment, _REFUSED: "", _FOLDER: str(user_cache_path("kernel-evo", appauthor=False) / "bytecode")}

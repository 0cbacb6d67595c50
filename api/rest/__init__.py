"""REST API, with one module per noun. The service serves the router of each module."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from fastapi import APIRouter


def routers() -> Iterator[APIRouter]:
    """Yield the routers of all modules, in alphabetical order of the modules."""
    for module in iter_modules(__path__, f"{__name__}."):
        yield from (each for each in vars(import_module(module.name)).values() if isinstance(each, APIRouter))

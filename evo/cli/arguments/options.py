"""Options that many commands share, and help texts that list the discovered strategies and proposers."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from evo.cli.arguments.naming import VARIABLES

ServedDb = Annotated[
    str | None,
    typer.Option(
        help="Database: a file, or postgresql://USER@HOST/NAME; by default a file in your user data directory.",
        envvar=VARIABLES["--db"],
        metavar="FILE|URL",
        rich_help_panel="Service",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of text.")]
SearchId = Annotated[
    int,
    typer.Argument(min=1, metavar="SEARCH", help="Number of the search, as listed by `kernel-evo searches`."),
]
FamilyName = Annotated[
    str, typer.Argument(metavar="FAMILY", help="A built-in family, or the path of a family folder or of a recording.")
]
Problem = Annotated[
    str,
    typer.Option(help="Fields of the problem as NAME=VALUE,…; omitted fields keep their defaults.", metavar="FIELDS"),
]
Problems = Annotated[
    str,
    typer.Option(
        "--problem",
        help="Fields of the problem as NAME=VALUE,…; omitted fields keep their defaults. Several values (`S=128,256`) "
        "give several problems, which are searched one after the other.",
        metavar="FIELDS",
    ),
]
ConfigText = Annotated[
    str,
    typer.Option(
        "--config",
        help=(
            "Tunables as NAME=VALUE,…; omitted tunables keep their defaults. Default: the default config or, if it "
            "is invalid, the nearest valid config."
        ),
        metavar="TUNABLES",
    ),
]
DeviceName = Annotated[
    str, typer.Option("--device", help="Device: auto, a kind (cpu, cuda, replay) or a model, e.g. 'NVIDIA L4'.")
]
Cache = Annotated[
    Literal["hot", "cold"],
    typer.Option(
        help="hot: time the same buffers repeatedly; cold: rotate buffers so that no data is in the last-level cache."
    ),
]
LaunchMode = Annotated[
    Literal["plain", "pdl"],
    typer.Option(
        help="pdl (programmatic dependent launch): a launch may begin before the previous launch has ended; needs "
        "sm_90 or newer."
    ),
]
WarmStart = Annotated[
    str | None,
    typer.Option(
        "--warm-start",
        metavar="FILE|STORAGE",
        help="Try the best configs of a recording first: a Kernel Tuner cache, T4 results, or an Optuna study as "
        "sqlite:///FILE#STUDY.",
    ),
]
Threads = Annotated[int, typer.Option(min=1, max=4096, metavar="N", help="CPU threads that a kernel may use.")]
AnyOrder = Annotated[
    bool,
    typer.Option(
        "--any-order",
        help="Accept kernels whose results vary between calls within the tolerance, e.g. because of atomic additions.",
    ),
]
PolicyName = Annotated[
    str,
    typer.Option(
        help="Policy with the resource limits of configs and the thresholds of a promotion: a .toml or .json file, or "
        "one of these names: default; l4-notes, which adds limits for an NVIDIA L4 (registers, occupancy, profile); "
        "l4-final, which adds a minimum gain of 20 % to l4-notes.",
        metavar="NAME|FILE",
    ),
]
ProposerName = Annotated[str, typer.Option(metavar="KIND:ARGUMENT", help="Program that writes the variants.")]
_MODEL = "Model"
ModelUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Address of the model's API; by default the provider's address. With this option, the API key is read "
        "from KERNEL_EVO_MODEL_KEY.",
        rich_help_panel=_MODEL,
    ),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1e6,
        metavar="X",
        help="Maximum cost of all requests to the model; needs --price-in and --price-out.",
        rich_help_panel=_MODEL,
    ),
]
PriceIn = Annotated[
    float | None,
    typer.Option(min=0.0, max=1e4, metavar="USD", help="Price per million prompt tokens.", rich_help_panel=_MODEL),
]
PriceOut = Annotated[
    float | None,
    typer.Option(min=0.0, max=1e4, metavar="USD", help="Price per million answer tokens.", rich_help_panel=_MODEL),
]


def named_path(text: str) -> Path:
    """Return the path in an argument.

    Raises:
        ValueError: the argument is empty, for example because a shell variable is not set. An empty path would mean the
            current folder.
    """
    if not text:
        raise ValueError("is empty; write a path, such as ./name")
    return Path(text)


def examples(*lines: str) -> str:
    """Return the examples for a command's help, one per line."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines)))


def listing(option: str, names: Callable[[], Iterable[str]]) -> type[TyperCommand]:
    """Return the class of a command whose help lists the valid names for `option`. Only `--help` calls `names`."""

    class Listing(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            shown: Any = next(each for each in self.params if each.name == option)
            shown.help = f"{shown.help.partition(' One of ')[0]} One of {', '.join(names())}."
            super().format_help(ctx, formatter)

    return Listing


def strategies() -> Iterable[str]:
    from evo.strategy import STRATEGIES

    return STRATEGIES


def proposers() -> Iterable[str]:
    """Return the kinds of proposers, each with a placeholder for its argument: ``folder:…``."""
    from evo.variants.proposers import PROPOSERS

    return (f"{kind}:…" for kind in PROPOSERS)

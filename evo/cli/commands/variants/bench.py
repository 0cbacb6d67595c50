"""The command ``bench kernelbench`` rates a proposer's kernels on problems in KernelBench's format."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import (
    BudgetUsd,
    DeviceName,
    Json,
    ModelUrl,
    PriceIn,
    PriceOut,
    ProposerName,
    examples,
    listing,
    named_path,
    proposers,
)
from evo.cli.console.output import console, print_json
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import InvalidInput

if TYPE_CHECKING:
    from evo.report.kernelbench import Result

_MODEL = "Model"


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Rate a proposer of variants.")
    group.callback()(lambda: None)
    group.command(
        cls=listing("proposer", proposers),
        epilog=examples(
            "kernel-evo bench kernelbench ./level1 --proposer folder:./variants",
            "kernel-evo bench kernelbench ./level1 --proposer openai:qwen3-coder --base-url http://127.0.0.1:11434/v1",
        ),
    )(kernelbench)
    app.add_typer(group, name="bench")


@on_service
def kernelbench(
    folder: Annotated[
        Path,
        typer.Argument(parser=named_path, metavar="FOLDER", help="Folder of problems in KernelBench's format (.py)."),
    ],
    *,
    proposer: ProposerName,
    only: Annotated[
        list[str] | None, typer.Option(metavar="PROBLEM", help="Process only this problem; may be repeated.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of trials of each variant.")] = 24,
    policy: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Policy with the thresholds of a promotion, as for `search`.")
    ] = "default",
    together: Annotated[
        int,
        typer.Option(
            min=1,
            max=16,
            metavar="N",
            help="Number of problems that are searched concurrently on the same device.",
        ),
    ] = 2,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, metavar="M", help="End after M minutes, and report the results so far.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=named_path, metavar="FOLDER", help="Write table, results and transcript to this new folder."
        ),
    ] = None,
    base_url: ModelUrl = None,
    proposals: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Maximum number of requests to the model for each problem.", rich_help_panel=_MODEL
        ),
    ] = 6,
    budget_usd: BudgetUsd = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    device: DeviceName = "auto",
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Import every problem, let a proposer submit variants, and report fast_p, valid variants, speed-ups and cost.

    fast_p is the share of problems with a correct kernel that is more than p times as fast as PyTorch without
    torch.compile.

    A variant is rated only if it was tuned, and if it passes all cases, including inputs with other seeds, scales,
    means and shapes. Limits on requests to a language model apply to each problem separately.
    """
    from evo.cli.commands.variants.evolve import prices_of
    from evo.cli.files.variant import read_variant_files
    from evo.cli.session.kernelbench import Contest, problems_in
    from evo.cli.session.session import ended_by_signals, progress, reached
    from evo.report.kernelbench import markdown, summary
    from evo.variants.evolve.limits import Limits
    from evo.variants.proposers import Context, build

    files = [each for each in problems_in(folder) if only is None or each.stem in only]
    if not files:
        names = " or ".join(only or ())
        raise InvalidInput("--only", f"{folder} has no problem named {names}; write the name of a file without .py")
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInput("--out", f"{out} already exists; choose a new folder")
    prices = prices_of(price_in, price_out, budget_usd)
    said, transcript = progress(as_json), list[str]()

    def say(text: str) -> None:
        transcript.append(text)
        said.print(text, markup=False, highlight=False)

    context = Context(
        argument="",
        trials=trials,
        say=say,
        read=read_variant_files,
        base_url=base_url,
        prices=prices,
        limits=Limits(proposals=proposals, usd=budget_usd, trials=trials),
    )
    chosen = build(proposer, context)
    with (
        ended_by_signals(),
        reached(said, where, measuring=where.url is None, beginning=True) as connection,
        _families(out) as families,
    ):
        contest = Contest(
            client=lambda: connection.client,
            proposer=chosen,
            terms={"policy": policy, "device": device, "budget": {"trials": 1}},
            families=families,
            together=together,
            minutes=minutes,
            say=say,
        )
        results = contest.run(files)
    if out is not None:
        _write(out, results, transcript)
    if as_json:
        print_json({"summary": summary(results), "results": results})
    else:
        console().print(f"\n{markdown(results)}", markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _families(out: Path | None) -> Iterator[Path]:
    """Yield the folder for imported families: a subfolder of `out`, or a temporary folder if `out` is None."""
    if out is not None:
        yield out / "families"
        return
    with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as folder:
        yield Path(folder)


def _write(out: Path, results: "list[Result]", transcript: list[str]) -> None:
    import json
    from dataclasses import asdict

    from evo.report.kernelbench import markdown

    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(markdown(results), "utf-8")
    (out / "results.json").write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n", "utf-8")
    (out / "transcript.txt").write_text("\n".join(transcript) + "\n", "utf-8")

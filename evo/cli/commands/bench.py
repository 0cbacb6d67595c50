"""``bench kernelbench``: rates a proposer's kernels on problems in KernelBench's format."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evo.cli.arguments.options import Db, DeviceName, Json, Token, Url, examples
from evo.cli.service.locations import Where
from evo.errors import InvalidInput

if TYPE_CHECKING:
    from evo.cli.session.kernelbench import Proposer
    from evo.client import Client
    from evo.report.kernelbench import Result

_MODEL = "Model"


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Measure how good a proposer of variants is.")
    group.callback()(lambda: None)
    group.command(
        epilog=examples(
            "kernel-evo bench kernelbench ./level1 --proposer folder:./variants",
            "kernel-evo bench kernelbench ./level1 --proposer openai:qwen3-coder --base-url http://127.0.0.1:11434/v1",
        )
    )(kernelbench)
    app.add_typer(group, name="bench")


def kernelbench(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of problems: .py files in its format.")],
    *,
    proposer: Annotated[
        str,
        typer.Option(
            metavar="KIND:NAME",
            help="folder:PATH submits PATH/PROBLEM/*; openai:MODEL and anthropic:MODEL ask a model, as `evolve` does.",
        ),
    ],
    only: Annotated[
        list[str] | None, typer.Option(metavar="PROBLEM", help="Only this problem; may be repeated.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Most trials of each variant.")] = 24,
    policy: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Gates of a promotion, as for `search`.")
    ] = "default",
    together: Annotated[
        int, typer.Option(min=1, max=16, metavar="N", help="Problems at the same time; they share the device.")
    ] = 2,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, metavar="M", help="Report what there is after so many minutes.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write table, results and transcript to this new folder.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the model's API.", rich_help_panel=_MODEL)
    ] = None,
    proposals: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most requests for each problem.", rich_help_panel=_MODEL)
    ] = 6,
    budget_usd: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="X", help="Most for each problem; needs prices.", rich_help_panel=_MODEL),
    ] = None,
    price_in: Annotated[
        float, typer.Option(min=0.0, metavar="USD", help="Price of a million prompt tokens.", rich_help_panel=_MODEL)
    ] = 0.0,
    price_out: Annotated[
        float, typer.Option(min=0.0, metavar="USD", help="Price of a million answer tokens.", rich_help_panel=_MODEL)
    ] = 0.0,
    device: DeviceName = "auto",
    url: Url = None,
    token: Token = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Import every problem, let a proposer submit variants, and report fast_p, validity, speed-ups and cost.

    Every variant is proven on further seeds, scales, means and shapes, and tuned, before it counts.
    """
    from evo.cli.console.output import console, print_json
    from evo.cli.session.kernelbench import Contest, problems_in
    from evo.cli.session.session import ended_by_signals, progress, reached
    from evo.report.kernelbench import markdown, summary

    files = [each for each in problems_in(folder) if only is None or each.stem in only]
    if not files:
        raise InvalidInput("--only", f"names no problem of {folder}")
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInput("--out", f"{out} is there already: name a new folder")
    if budget_usd is not None and not (price_in or price_out):
        raise InvalidInput("--price-in", "is needed for a budget in USD: give it, and --price-out")
    said, transcript = progress(as_json), list[str]()

    def say(text: str) -> None:
        transcript.append(text)
        said.print(text, markup=False, highlight=False)

    where = Where(url=url, token=token, database=db)
    with (
        ended_by_signals(),
        reached(said, where, measuring=url is None, beginning=True) as connection,
        _families(out) as families,
    ):
        chosen = _proposer(
            proposer,
            trials=trials,
            say=say,
            base_url=base_url,
            limits={"proposals": proposals, "usd": budget_usd, "trials": trials},
            prices=(price_in, price_out),
        )
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
    """Yield the folder for imported families: below `out`, or temporary."""
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


def _proposer(
    text: str,
    *,
    trials: int,
    say: Callable[[str], None],
    base_url: str | None,
    limits: dict[str, float | None],
    prices: tuple[float, float],
) -> "Proposer":
    from evo.cli.session.kernelbench import FolderProposer, proposer_of

    kind, name = proposer_of(text)
    if kind == "folder":
        place = Path(name).expanduser()
        if not place.is_dir():
            raise InvalidInput("--proposer", f"{place} is no folder")
        return FolderProposer(folder=place, trials=trials, say=say)
    return _ModelProposer(kind, name, say=say, base_url=base_url, limits=limits, prices=prices)


class _ModelProposer:
    """Asks a language model, as ``evolve`` does. It waits within a step, so problems run one after the other."""

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        say: Callable[[str], None],
        base_url: str | None,
        limits: dict[str, float | None],
        prices: tuple[float, float],
    ) -> None:
        from evo.cli.commands.evolve import key_of
        from evo.variants.evolve.chat import BASES, Chat, Prices
        from evo.variants.evolve.evolution import Limits

        self._chat = Chat(
            model=model,
            protocol=provider,  # type: ignore[arg-type]
            base_url=base_url or BASES[provider],  # type: ignore[index]
            key=key_of(provider, base_url),  # type: ignore[arg-type]
        )
        self._prices = Prices(tokens_in=prices[0], tokens_out=prices[1])
        self._limits = Limits(**limits)  # type: ignore[arg-type]
        self._say = say

    def propose(self, client: "Callable[[], Client]", search_id: int, problem: str) -> Iterator[None]:
        import time

        from evo.cli.session.kernelbench import LOOK_S
        from evo.messages.view import VariantView
        from evo.variants.evolve.evolution import Evolution

        def wait(view: VariantView) -> VariantView:
            while not view.ended:
                time.sleep(LOOK_S)
                view = client().variant(view.search_id, view.number)
            return view

        evolution = Evolution(
            service=client,
            search_id=search_id,
            chat=self._chat,
            prices=self._prices,
            limits=self._limits,
            information="insights",
            wait=wait,
        )
        self._say(f"{problem}: ended by {evolution.run()}")
        yield

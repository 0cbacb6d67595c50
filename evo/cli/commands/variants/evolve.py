"""The command ``evolve``: a language model proposes variants, and the search checks, times and tunes them."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from evo.cli.arguments.options import (
    BudgetUsd,
    DeviceName,
    Json,
    ModelUrl,
    PolicyName,
    PriceIn,
    PriceOut,
    Problem,
    examples,
)
from evo.cli.console.output import print_json
from evo.cli.service.locations import ServiceRef
from evo.cli.service.options import on_service
from evo.errors import InvalidInput
from evo.text.visible import visible
from evo.text.wording import count_text

if TYPE_CHECKING:
    from rich.console import Console

    from evo.cli.service.connection import Connection
    from evo.messages.view import ProposalView, SearchView, VariantView
    from evo.variants.evolve.message import Prices

_BUDGET, _MODEL = "Budget", "Model"
PROPOSALS = 10
"""Maximum number of requests to the model if no budget is given."""

Provider = Literal["openai", "anthropic"]
ENDS = {
    "proposals": "the maximum number of proposals was reached",
    "usd": "the next request might exceed the budget in USD",
    "minutes": "the time limit was reached",
    "share": "a variant reached the requested share of the device's limit",
    "model": "several consecutive requests to the model got no answer",
}


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "kernel-evo evolve softmax --model qwen3-coder --base-url http://127.0.0.1:11434/v1 --proposals 12",
            "kernel-evo evolve softmax --search 12 --model gpt-5 --budget-usd 2 --price-in 1.25 --price-out 10",
        )
    )(evolve)


@on_service
def evolve(
    family: Annotated[str, typer.Argument(metavar="FAMILY", help="A built-in family, or the path of a family folder.")],
    *,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the model in the API of its service.", rich_help_panel=_MODEL)
    ],
    provider: Annotated[
        Provider, typer.Option(help="Protocol of the model's provider.", rich_help_panel=_MODEL)
    ] = "openai",
    base_url: ModelUrl = None,
    information: Annotated[
        Literal["task", "elites", "insights"],
        typer.Option(
            help="Content of prompts. task: only the task; elites: also the best and the failed variants; insights: "
            "also the conclusions in earlier answers, with the measured results."
        ),
    ] = "insights",
    proposals: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Maximum number of requests to the model, including repairs.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    budget_usd: BudgetUsd = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            metavar="M",
            help="Minutes after which this run sends no more requests.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    stop_at_share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1.0,
            metavar="S",
            help="Stop when the best kernel reaches this share of the device's limit.",
            rich_help_panel=_BUDGET,
        ),
    ] = None,
    repairs: Annotated[
        int, typer.Option(min=0, max=10, metavar="K", help="Maximum number of requests to repair one proposal.")
    ] = 2,
    trials: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Maximum number of trials of the family's own implementation and of each variant."
        ),
    ] = 40,
    answer_tokens: Annotated[
        int,
        typer.Option(
            min=256,
            max=1_000_000,
            metavar="N",
            help="Maximum length of the model's answer in tokens.",
            rich_help_panel=_MODEL,
        ),
    ] = 8192,
    search_id: Annotated[
        int | None, typer.Option("--search", min=1, metavar="SEARCH", help="Continue with this search of the family.")
    ] = None,
    problem: Problem = "",
    policy: PolicyName = "default",
    device: DeviceName = "auto",
    where: ServiceRef,
    as_json: Json = False,
) -> None:
    """Let a language model propose variants. The search checks, times and tunes each variant, and promotes a config if
    the evidence suffices.

    Prompts, answers, token counts and costs are stored with the search. --search continues a stopped run.
    """
    from evo.cli.session.session import ended_by_signals, progress, reached
    from evo.search.lifecycle import TERMINAL
    from evo.variants.evolve.chat import chat_of
    from evo.variants.evolve.evolution import Evolution
    from evo.variants.evolve.limits import Limits

    if search_id is not None and policy != "default":
        raise InvalidInput("--policy", f"applies only to a new search; omit --policy to continue search {search_id}")
    if proposals is None and budget_usd is None and minutes is None:
        proposals = PROPOSALS
    prices = prices_of(price_in, price_out, budget_usd)
    chat = chat_of(provider, model, base_url, most_tokens=answer_tokens)
    limits = Limits(
        proposals=proposals, usd=budget_usd, minutes=minutes, share=stop_at_share, repairs=repairs, trials=trials
    )
    out = progress(as_json)
    begins = search_id is None
    with ended_by_signals(), reached(out, where, measuring=where.url is None, beginning=begins) as connection:
        terms = {"problem": problem, "policy": policy, "device": device, "budget": {"trials": trials}}
        view = _search(connection, search_id, family=family, **terms)
        out.print(f"Search {view.id}. Continue with: kernel-evo evolve {family} --search {view.id} --model {model} …")
        if view.state not in TERMINAL:
            out.print(f"First the family's own implementation is tuned, with at most {count_text(trials, 'trial')}.")
        view = _ended(connection, view)
        evolution = Evolution(
            service=lambda: connection.client,
            search_id=view.id,
            chat=chat,
            prices=prices,
            limits=limits,
            information=information,
            wait=lambda variant: _waited(connection, variant),
            report=lambda proposal, variant: _print_proposal(out, proposal, variant),
        )
        end = evolution.run()
        found, spent = connection.client.variants(view.id), connection.client.proposals(view.id)
    if as_json:
        print_json({"search": view.id, "ended": end, "variants": found, "proposals": spent})
    else:
        _conclude(out, end, found, spent)


def prices_of(price_in: float | None, price_out: float | None, budget_usd: float | None) -> "Prices":
    """Return the prices of a model. A missing price is 0.

    Raises:
        InvalidInput: a budget in USD is set, but a price is missing, or both prices are 0.
    """
    from evo.variants.evolve.message import Prices

    for option, price in (("--price-in", price_in), ("--price-out", price_out)):
        if budget_usd is not None and price is None:
            raise InvalidInput(option, "is needed for a budget in USD; set both prices, 0 for free tokens")
    if budget_usd is not None and not (price_in or price_out):
        raise InvalidInput("--price-in", "must be greater than 0 for a budget in USD if --price-out is 0")
    return Prices(tokens_in=price_in or 0.0, tokens_out=price_out or 0.0)


def _search(connection: "Connection", search_id: int | None, *, family: str, **terms: Any) -> "SearchView":
    """Return the search with this id or, if the id is None, a new search with the given family and terms.

    Raises:
        InvalidInput: the search belongs to another family.
    """
    from evo.cli.session.request import Request

    if search_id is None:
        return Request.of(family=family, **terms).submit(connection.client)
    view = connection.client.search(search_id)
    if family not in (view.family, view.source) and not family.rstrip("/").endswith(f"/{view.family}"):
        raise InvalidInput(
            "--search", f"search {search_id} belongs to family {view.family}, not {family}; choose a search of {family}"
        )
    return view


def _ended(connection: "Connection", view: "SearchView") -> "SearchView":
    """Wait until the family's own implementation is tuned, because the model starts from its results."""
    import time

    from evo.search.lifecycle import TERMINAL

    search_id = view.id
    while view.state not in TERMINAL:
        time.sleep(1.0)
        view = connection.ask(lambda client: client.search(search_id))
    return view


def _waited(connection: "Connection", variant: "VariantView") -> "VariantView":
    from evo.cli.commands.variants.variants import waited

    return waited(connection, variant)


def _print_proposal(out: "Console", proposal: "ProposalView", variant: "VariantView | None") -> None:
    what = f"{proposal.number}. {proposal.operator}, {proposal.usd:.4f} USD: "
    if variant is None:
        what += f"no variant: {(proposal.error or '').splitlines()[0] if proposal.error else ''}"
    elif variant.best is None:
        what += f"variant {variant.number} ({variant.name}) does not work: {variant.reason}"
    else:
        ratio = f", {variant.ratio_text}" if variant.ratio_text else ""
        what += f"variant {variant.number} ({variant.name}) takes {variant.best_text}{ratio}"
    out.print(visible(what), markup=False, highlight=False)


def _conclude(
    out: "Console", end: str, variants: "tuple[VariantView, ...]", proposals: "tuple[ProposalView, ...]"
) -> None:
    from evo.cli.commands.variants.variants import show_table

    out.print()
    show_table(out, variants)
    usable = sum(each.number > 0 and each.usable for each in variants)
    cost = sum(each.usd for each in proposals)
    asked = count_text(len(proposals), "proposal")
    working = f"{count_text(usable, 'variant')} that {'works' if usable == 1 else 'work'}"
    out.print(f"\nEnded: {ENDS[end]}. {asked}, {working}, {cost:.4f} USD.")

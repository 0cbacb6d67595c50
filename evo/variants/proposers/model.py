"""``openai:MODEL`` and ``anthropic:MODEL`` request variants from a language model, like `kernel-evo evolve`."""

import time
from collections.abc import Callable, Iterator

from evo.client import Client
from evo.messages.view import VariantView
from evo.variants.evolve.chat import chat_of
from evo.variants.evolve.evolution import Evolution
from evo.variants.evolve.provider import Protocol
from evo.variants.proposers.base import Context, proposer

LOOK_S = 0.5
"""Seconds between two checks of a variant that is being tuned."""


class ModelProposer:
    """Requests variants from a language model.

    The proposer waits without yielding, so problems are processed one after another.
    """

    def __init__(self, context: Context, provider: Protocol) -> None:
        self._context = context
        self._chat = chat_of(provider, context.argument, context.base_url)

    def propose(self, client: Callable[[], Client], search_id: int, problem: str) -> Iterator[None]:
        def wait(view: VariantView) -> VariantView:
            while not view.ended:
                time.sleep(LOOK_S)
                view = client().variant(view.search_id, view.number)
            return view

        evolution = Evolution(
            service=client,
            search_id=search_id,
            chat=self._chat,
            prices=self._context.prices,
            limits=self._context.limits,
            information="insights",
            wait=wait,
        )
        self._context.say(f"{problem}: ended (reason: {evolution.run()})")
        yield


@proposer("openai")
def openai(context: Context) -> ModelProposer:
    return ModelProposer(context, "openai")


@proposer("anthropic")
def anthropic(context: Context) -> ModelProposer:
    return ModelProposer(context, "anthropic")

"""The evolution of variants works with a scripted model behind a real HTTP server, and a service in memory."""

import importlib.util
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evo.errors import InvalidInput
from evo.messages.view import BestView, FailureView, ProposalView, VariantView
from evo.messages.view.variant import elites
from evo.promotion.leading import Source
from evo.variants.evolve.answer import SCHEMA, read_idea
from evo.variants.evolve.chat import ATTEMPTS, Chat, chat_of
from evo.variants.evolve.evolution import Evolution
from evo.variants.evolve.insights import Log, insights
from evo.variants.evolve.limits import Limits
from evo.variants.evolve.message import Message, ModelFailed, Prices
from evo.variants.evolve.operators import operator_of, parents_of, stagnates
from evo.variants.evolve.provider import Protocol
from tests.unit.test_brief import BRIEF

MODEL = Path(__file__).parents[2] / "docs" / "guides" / "examples" / "evolve" / "scripted_model.py"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = Prices(tokens_in=1.0, tokens_out=10.0)
GOOD = {"name": "wide", "idea": "wider", "insight": "wide is fast", "files": {"k.c": "good"}}
BROKEN = {"name": "broken", "idea": "no", "files": {"k.c": "broken"}}


def scripted() -> Any:
    """Return the module of the guide's scripted model."""
    spec = importlib.util.spec_from_file_location("scripted_model", MODEL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def model(*steps: Any) -> Iterator[tuple[Chat, Any]]:
    """Serve a scripted model. Yield a chat with the model, and the script, which records requests."""
    module = scripted()
    script = module.Script(list(steps))
    server = module.server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        chat = Chat(
            model="scripted", base_url=url, key="secret-key", schema=SCHEMA, most_tokens=100, sleep=lambda s: None
        )
        yield chat, script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def view(number: int, *, time_us: float | None, parents: tuple[int, ...] = (0,), share: float = 0.1) -> VariantView:
    failure = FailureView(outcome="compile_failed", count=1, trial=0, config={}, detail="k.c:1: error: bad")
    return VariantView(
        search_id=1,
        number=number,
        name=f"v{number}",
        author="",
        idea="",
        parents=parents,
        tuning_id=1 + number,
        family_digest="ab" * 32,
        state="finished",
        reason="trials",
        asked=1,
        finished=1,
        counts={},
        submitted_at=NOW,
        best=None if time_us is None else BestView(number=0, config={}, time_us=time_us),
        ratio=None if number == 0 or time_us is None else time_us / 10.0,
        ratio_source=None if number == 0 or time_us is None else "quick",
        share=None if time_us is None else share,
        failures=(failure,) if time_us is None else (),
    )


SEARCH = 9


@dataclass
class Memory:
    """A fake client that answers the requests of an evolution. The source of a variant states its outcome."""

    kept: list[ProposalView] = field(default_factory=list)
    found: list[VariantView] = field(default_factory=lambda: [view(0, time_us=10.0)])
    dies_before_submitting: bool = False
    earlier: dict[int, "Memory"] = field(default_factory=dict)

    def search(self, search_id: int) -> Any:
        return SimpleNamespace(id=search_id, family="toy", subject="toy", device=SimpleNamespace(model="Toy CPU"))

    def searches(self, **wanted: Any) -> Any:
        assert (wanted["family"], wanted["device"]) == ("toy", "Toy CPU")
        return SimpleNamespace(items=[self.search(number) for number in (SEARCH, *self.earlier)])

    def proposals(self, search_id: int) -> tuple[ProposalView, ...]:
        return tuple(self.earlier.get(search_id, self).kept)

    def variants(self, search_id: int) -> tuple[VariantView, ...]:
        return tuple(self.earlier.get(search_id, self).found)

    def variant_brief(self, search_id: int) -> Any:
        return BRIEF

    def add_proposal(self, search_id: int, **given: Any) -> ProposalView:
        made: dict[str, Any] = {"number": len(self.kept) + 1, "answer": None, "tokens_in": None, "tokens_out": None}
        self.kept.append(ProposalView(**made, asked_at=NOW, answered_at=None, **given))
        return self.kept[-1]

    def answer_proposal(self, search_id: int, number: int, **answer: Any) -> ProposalView:
        self.kept[number - 1] = replace(self.kept[number - 1], answered_at=NOW, **answer)
        return self.kept[number - 1]

    def submit_variant(self, search_id: int, files: Any, *, proposal: int, parents: Any, **given: Any) -> VariantView:
        if self.dies_before_submitting:
            raise KeyboardInterrupt
        if "refused.py" in files:
            raise InvalidInput("files", "refused.py is not a source")
        time_us = None if "broken" in files.get("k.c", "") else 5.0
        self.found.append(view(len(self.found), time_us=time_us, parents=tuple(parents)))
        self.kept[proposal - 1] = replace(self.kept[proposal - 1], variant=self.found[-1].number)
        return self.found[-1]


def evolved(chat: Chat, memory: Memory, **limits: Any) -> str:
    evolution = Evolution(
        service=lambda: memory,  # type: ignore[arg-type,return-value]
        search_id=SEARCH,
        chat=chat,
        prices=PRICES,
        limits=Limits(**limits),
        information="insights",
        wait=lambda variant: variant,
    )
    return evolution.run()


def test_model_ideas_become_variants_that_store_prompt_and_cost() -> None:
    memory = Memory()
    with model(GOOD, {**GOOD, "name": "next"}) as (chat, script):
        assert evolved(chat, memory, proposals=2) == "proposals"
    assert [each.variant for each in memory.kept] == [1, 2]
    first = memory.kept[0]
    assert (first.operator, first.model, first.insight) == ("initialise", "scripted", "wide is fast")
    assert "void toy" in first.prompt
    assert "wide is fast" in memory.kept[1].prompt
    assert first.usd == pytest.approx(PRICES.of(first.tokens_in or 0, first.tokens_out or 0))
    sent = {name.lower(): value for name, value in script.requests[0]["headers"].items()}
    assert sent["authorization"] == "Bearer secret-key"
    assert not any("secret-key" in each.prompt + (each.answer or "") for each in memory.kept)


def test_repair_prompt_contains_the_compiler_message_of_the_failed_variant() -> None:
    memory = Memory()
    with model(BROKEN, GOOD) as (chat, script):
        evolved(chat, memory, proposals=2)
    assert [(each.operator, each.repairs, each.variant) for each in memory.kept] == [
        ("initialise", None, 1),
        ("repair", 1, 2),
    ]
    assert "k.c:1: error: bad" in script.requests[1]["body"]["messages"][-1]["content"]


def test_request_refused_for_its_schema_costs_nothing_and_is_repeated_without_it() -> None:
    memory = Memory()
    refusal = {"status": 400, "text": "response_format is not supported"}
    with model(refusal, BROKEN, GOOD, {**GOOD, "name": "next"}) as (chat, script):
        assert evolved(chat, memory, proposals=3, usd=1.0) == "proposals"
    assert [each.state for each in memory.kept] == ["refused", "submitted", "submitted", "submitted"]
    assert [each.operator for each in memory.kept] == ["initialise", "initialise", "repair", "mutate"]
    assert memory.kept[2].repairs == 2
    refused, first = memory.kept[:2]
    assert (refused.usd, refused.prompt) == (0.0, first.prompt)
    assert "400: " in (refused.answer or "")
    assert "response_format" in (refused.answer or "")
    assert first.usd == PRICES.of(first.tokens_in or 0, first.tokens_out or 0)
    assert ["response_format" in each["body"] for each in script.requests] == [True, False, False, False]


def test_answer_that_follows_the_schema_becomes_a_variant() -> None:
    text = json.dumps({**GOOD, "table": "[tunables]\nSTEP = [1, 2]\n", "files": [{"name": "k.c", "text": "good"}]})
    idea = read_idea(text)
    assert idea.document("m")["tunables"] == {"STEP": [1, 2]}
    assert idea.files == {"k.c": "good"}


@pytest.mark.parametrize(
    "step",
    [
        *("", "I refuse.", "x" * 200_000, "{}", "[1]", '{"files": {}}', '{"files": {"k.c": 3}}', '{"a": 1}'),
        *({"name": "x", "files": {"refused.py": ""}}, {"name": 3, "files": {"k.c": ""}}, "{" * 3000),
    ],
)
def test_invalid_model_answers_are_stored_with_their_cost(step: Any) -> None:
    memory = Memory()
    with model(step, GOOD) as (chat, _):
        assert evolved(chat, memory, proposals=2) == "proposals"
    useless, repaired = memory.kept
    assert useless.error
    assert useless.answer is not None
    assert useless.usd > 0
    assert repaired.variant == 1


@pytest.mark.parametrize(
    ("ended", "text", "error"),
    [
        ("length", '{"name": "x", "table": {"tunables": {"STEP": [1]}}, "files"', "was cut off at the maximum number"),
        ("length", "", "was cut off at the maximum number"),
        ("tool_calls", "", r"is empty \(the provider ended it with `tool_calls`\)"),
        ("", "", "is empty; answer with one JSON object"),
    ],
)
def test_error_for_an_answer_without_a_variant_states_why_the_model_stopped(ended: str, text: str, error: str) -> None:
    choice = {"message": {"content": text or None}, "finish_reason": ended or None}
    memory = Memory()
    with model({"raw": json.dumps({"choices": [choice]})}, GOOD) as (chat, script):
        evolved(chat, memory, proposals=2)
    assert re.match(f"answer: {error}", memory.kept[0].error or "")
    assert re.search(error, script.requests[1]["body"]["messages"][-1]["content"])
    assert memory.kept[1].variant == 1


def test_repair_prompts_do_not_grow_with_the_answers_of_the_model() -> None:
    memory = Memory()
    with model(*["long prose " * 100_000] * 4, GOOD) as (chat, script):
        evolved(chat, memory, proposals=5, repairs=4)
    sent = [each["body"]["messages"] for each in script.requests]
    assert [len(each) for each in sent] == [2, 4, 4, 4, 4]
    assert all(len(each.prompt) < 300_000 for each in memory.kept)
    assert memory.kept[-1].variant == 1


def test_restarted_evolution_waits_for_variants_of_the_earlier_run() -> None:
    memory = Memory()
    waited: list[int] = []

    def wait(variant: VariantView) -> VariantView:
        waited.append(variant.number)
        memory.found[variant.number] = replace(variant, state="finished")
        return memory.found[variant.number]

    with model(GOOD) as (chat, _):
        evolved(chat, memory, proposals=1)
        memory.found[1] = replace(memory.found[1], state="running")
        Evolution(
            service=lambda: memory,  # type: ignore[arg-type,return-value]
            search_id=SEARCH,
            chat=chat,
            prices=PRICES,
            limits=Limits(proposals=1),
            information="insights",
            wait=wait,
        ).run()
    assert waited == [1]


def test_insight_is_stored_before_its_variant_is_submitted() -> None:
    memory = Memory(dies_before_submitting=True)
    with model(GOOD) as (chat, _), pytest.raises(KeyboardInterrupt):
        evolved(chat, memory, proposals=1)
    assert memory.kept[0].insight == "wide is fast"


def test_busy_model_service_is_retried_after_the_requested_time() -> None:
    memory = Memory()
    busy = {"status": 429, "retry_after": 7}
    waits: list[float] = []
    with model(busy, {"status": 503}, GOOD) as (chat, _):
        evolved(replace(chat, sleep=waits.append), memory, proposals=1)
    assert memory.kept[0].variant == 1
    assert waits[0] == 7.0


@pytest.mark.parametrize("step", [{"cut": True}, {"raw": "not JSON"}, {"raw": '{"choices": []}'}, {"raw": "[]"}])
def test_truncated_model_answer_counts_with_its_maximum_cost(step: Any) -> None:
    memory = Memory()
    with model(step, GOOD) as (chat, _):
        evolved(chat, memory, proposals=2)
    assert memory.kept[0].error
    assert memory.kept[0].usd > PRICES.of(0, 99)
    assert memory.kept[1].variant == 1


def test_unresponsive_model_service_ends_the_run() -> None:
    memory = Memory()
    with model(*[{"status": 500}] * 100) as (chat, script):
        assert evolved(chat, memory, proposals=50) == "model"
    assert len(script.requests) == 3 * ATTEMPTS
    assert sum(each.usd for each in memory.kept) == 0


def test_refused_model_key_is_not_retried_and_not_shown() -> None:
    with model({"status": 401}) as (chat, script):
        with pytest.raises(ModelFailed, match="401") as refused:
            chat.ask([Message(role="user", text="hello")])
        assert len(script.requests) == 1
    assert "secret-key" not in str(refused.value)
    assert not refused.value.charged


@pytest.mark.parametrize("budget", [0.0, 0.005, 0.02, 0.1])
def test_evolution_does_not_exceed_its_budget_in_usd(budget: float) -> None:
    memory = Memory()
    with model(*[{**GOOD, "name": f"v{n}"} for n in range(30)]) as (chat, _):
        assert evolved(chat, memory, usd=budget, proposals=30) in {"usd", "proposals"}
    assert sum(each.usd for each in memory.kept) <= budget


def test_evolution_restarted_after_a_kill_uses_the_stored_answer() -> None:
    memory = Memory(dies_before_submitting=True)
    with model(GOOD, {**GOOD, "name": "next"}) as (chat, script):
        with pytest.raises(KeyboardInterrupt):
            evolved(chat, memory, proposals=2)
        assert memory.kept[0].answer
        memory.dies_before_submitting = False
        evolved(chat, memory, proposals=2)
        assert len(script.requests) == 2
    assert [each.variant for each in memory.kept] == [1, 2]


def test_unanswered_model_request_counts_with_its_maximum_cost() -> None:
    memory = Memory()
    memory.add_proposal(1, operator="initialise", information="task", model="m", prompt="", usd=0.5)
    with model(GOOD) as (chat, script):
        assert evolved(chat, memory, usd=0.5) == "usd"
        assert script.requests == []


def test_unanswered_proposal_is_abandoned_after_the_timeout_but_its_cost_counts() -> None:
    memory = Memory()
    memory.add_proposal(1, operator="initialise", information="task", model="m", prompt="", usd=0.5)
    assert memory.kept[0].state == "asked"
    with model(GOOD) as (chat, _):
        assert evolved(replace(chat, timeout_s=1e9), memory, proposals=1) == "proposals"
        assert memory.kept[0].state == "asked"
        assert evolved(replace(chat, timeout_s=30.0), memory, proposals=1) == "proposals"
    assert [each.state for each in memory.kept] == ["abandoned", "submitted"]
    assert memory.kept[0].usd == 0.5


@pytest.mark.parametrize(("asked_s", "state"), [(1.0, "asked"), (1e6, "abandoned")])
def test_proposal_age_follows_the_clock_of_the_service(asked_s: float, state: str) -> None:
    memory = Memory()
    memory.add_proposal(1, operator="initialise", information="task", model="m", prompt="", usd=0.5)
    at = datetime.now(UTC) + (timedelta(days=1) if state == "abandoned" else timedelta(days=-1))
    memory.kept[0] = replace(memory.kept[0], asked_at=at, asked_s=asked_s)
    with model(GOOD) as (chat, _):
        evolved(replace(chat, timeout_s=100.0), memory, proposals=1)
    assert memory.kept[0].state == state


def test_evolution_ends_when_a_variant_reaches_the_requested_share_of_the_limit() -> None:
    memory = Memory(found=[view(0, time_us=10.0, share=0.95)])
    with model(GOOD) as (chat, _):
        assert evolved(chat, memory, share=0.9) == "share"


def test_text_around_the_json_in_a_model_answer_is_ignored() -> None:
    text = 'Here {is} it:\n```json\n{"name": "a", "idea": "b", "files": {"k.c": "{ }"}}\n```\nDone.'
    assert read_idea(text).files == {"k.c": "{ }"}


def test_evolution_operator_depends_on_the_number_of_earlier_proposals() -> None:
    three = [view(number, time_us=5.0) for number in range(3)]
    assert [operator_of(ideas, three) for ideas in range(6)] == [
        *("initialise", "mutate", "crossover-differ", "crossover-join", "mutate", "mutate-parameters")
    ]
    assert operator_of(5, [view(0, time_us=None)]) == "initialise"
    assert operator_of(3, three[:1]) == "mutate"


def test_stagnating_evolution_uses_crossover_and_newer_parents() -> None:
    quiet = [view(0, time_us=10.0), *(view(number, time_us=10.0 + number) for number in range(1, 4))]
    last = view(4, time_us=None)
    assert not stagnates(quiet)
    assert stagnates([*quiet, last])
    assert not stagnates([*quiet, view(4, time_us=9.0)])
    assert [operator_of(ideas, [*quiet, last]) for ideas in (1, 2, 4, 5)] == [
        *("crossover-differ", "crossover-differ", "mutate", "crossover-differ")
    ]
    assert parents_of("mutate", [*quiet, last], 3) == (2,)
    assert parents_of("mutate", quiet, 3) == (0,)


def test_parents_of_a_proposal_are_the_fastest_variants() -> None:
    variants = [view(0, time_us=10.0), view(1, time_us=5.0), view(2, time_us=None), view(3, time_us=7.0)]
    assert parents_of("mutate-parameters", variants, 4) == (1,)
    assert len(parents_of("crossover-join", variants, 3)) == 2
    assert 2 not in {number for ideas in range(9) for number in parents_of("mutate", variants, ideas)}
    assert parents_of("mutate", [view(2, time_us=None)], 1) == (0,)


def stated(number: int, insight: str, *, variant: int, uses: tuple[str, ...] = ()) -> ProposalView:
    """Return an answered proposal with an insight, whose variant applies other insights."""
    return ProposalView(
        number=number,
        operator="mutate",
        information="insights",
        model="m",
        prompt="",
        answer=json.dumps({**GOOD, "insight": insight, "uses": [*uses]}),
        tokens_in=1,
        tokens_out=1,
        usd=0.0,
        asked_at=NOW,
        answered_at=NOW,
        insight=insight,
        variant=variant,
    )


FASTER, SLOWER, FAILED = 1, 2, 3
VARIANTS = [view(0, time_us=10.0), view(FASTER, time_us=5.0), view(SLOWER, time_us=20.0), view(FAILED, time_us=None)]


def supported(*proposals: ProposalView, earlier: tuple[ProposalView, ...] = ()) -> list[str]:
    """Return the texts of the supported insights of search 9 with these proposals, and of the earlier search 7."""
    logs = [Log(search_id=number, proposals=each, variants=VARIANTS) for number, each in ((9, proposals), (7, earlier))]
    return [each.text for each in insights(logs)]


def test_insight_is_kept_only_if_its_variant_beats_the_family_implementation() -> None:
    assert supported(*(stated(n, f"insight {n}", variant=n) for n in (FASTER, SLOWER, FAILED))) == ["insight 1"]


def test_insight_is_dropped_unless_it_made_more_variants_faster_than_slower() -> None:
    first = stated(1, "wide", variant=FASTER)
    slower = stated(2, "", variant=SLOWER, uses=("9.1",))
    assert supported(first, slower) == []
    assert supported(first, stated(2, "", variant=FAILED, uses=("9.1",))) == ["wide"]
    assert supported(first, slower, stated(3, "", variant=FASTER, uses=("9.1", "9.1", "1.1"))) == ["wide"]
    assert supported(first, stated(2, "wide", variant=SLOWER)) == []


def test_insight_of_an_earlier_search_is_dropped_if_a_later_variant_contradicts_it() -> None:
    first = stated(1, "wide", variant=FASTER)
    assert supported(stated(1, "", variant=SLOWER, uses=("7.1",)), earlier=(first,)) == []
    assert supported(stated(1, "deep", variant=FASTER), earlier=(first,)) == ["deep", "wide"]


def test_insight_text_contains_its_measurement_and_the_number_of_slower_variants() -> None:
    proposals = [stated(1, "wide", variant=FASTER), stated(2, "", variant=FASTER, uses=("9.1",))]
    (insight,) = insights([Log(search_id=9, place="search 9, toy", proposals=proposals, variants=VARIANTS)])
    assert str(insight).startswith("[9.1] wide (search 9, toy, variant 1: 5 µs")
    assert str(insight).endswith("; of 2 variants with it, 0 slower)")


def test_insights_of_earlier_searches_are_in_prompts_until_contradicted() -> None:
    memory = Memory()
    with model(GOOD) as (chat, _):
        evolved(chat, memory, proposals=1)
    memory.earlier = {7: Memory(kept=memory.kept, found=memory.found)}
    memory.kept, memory.found = [], [view(0, time_us=10.0)]
    with model({**GOOD, "insight": "", "uses": ["7.1"]}, GOOD) as (chat, _):
        evolved(chat, memory, proposals=1)
        assert "[7.1] wide is fast (search 7, toy, variant 1: 5 µs" in memory.kept[0].prompt
        memory.found[1] = replace(memory.found[1], ratio=1.5)
        evolved(chat, memory, proposals=2)
    assert "wide is fast" not in memory.kept[1].prompt


def test_anthropic_protocol_is_supported() -> None:
    raw = '{"content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 5, "output_tokens": 2}}'
    with model({"raw": raw}) as (chat, script):
        messages = [Message(role="system", text="be brief"), Message(role="user", text="hello")]
        answer = replace(chat, protocol="anthropic").ask(messages)
    assert (answer.text, answer.tokens_in, answer.tokens_out) == ("hi", 5, 2)
    request = script.requests[0]
    assert request["path"] == "/v1/messages"
    assert request["body"]["system"] == "be brief"
    assert request["body"]["messages"] == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("key", ["ü", "a\nb", "a b", "a\0"])
def test_error_about_an_invalid_model_key_does_not_contain_the_key(key: str) -> None:
    with pytest.raises(InvalidInput, match="key: contains characters that a key cannot have") as refused:
        Chat(model="m", base_url="http://127.0.0.1:1", key=key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
def test_hosted_model_without_its_key_variable_is_refused(
    provider: Protocol, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KERNEL_EVO_MODEL_KEY", "of-another-provider")
    with pytest.raises(InvalidInput) as refused:
        chat_of(provider, "large", None)
    assert refused.value.field == variable
    assert "name another provider with --base-url" in refused.value.reason
    assert chat_of(provider, "large", "http://127.0.0.1:1/v1").key == "of-another-provider"
    monkeypatch.setenv(variable, "own")
    assert chat_of(provider, "large", None).key == "own"


def test_variants_are_ranked_by_quick_times_after_the_variant_of_the_champion() -> None:
    def timed(number: int, quick_us: float, *, confirmed: bool = False, champion: bool = False) -> VariantView:
        source: Source = "confirmed" if confirmed else "quick"
        time_us = 30.0 * quick_us if confirmed else quick_us
        best = BestView(number=0, config={}, time_us=time_us, source=source, quick_cost=quick_us)
        return replace(view(number, time_us=quick_us), best=best, champion=champion, mechanisms=(f"m{number}",))

    views = [timed(0, 10.0), timed(1, 8.0, confirmed=True), timed(2, 9.0), timed(3, 8.5, confirmed=True, champion=True)]
    assert [each.number for each in elites(views)] == [3, 1, 2, 0]

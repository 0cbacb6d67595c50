"""Errors about command lines end with a suggestion, and the suggestion is accepted if a user pastes it."""

import json
import re
import shlex
from typing import Any

import pytest
from pydantic import ValidationError

from api.http.errors import wrong_fields
from api.schemas import SearchRequest
from evo.cli import main as entry
from evo.cli.arguments.config import parse_config
from evo.cli.session import session, shapes
from evo.device.estimate.target import known
from evo.device.kind import kinds
from evo.device.requirements import Requirements, parse_toolkit
from evo.errors import InvalidInput, NotFound
from evo.family.problem import Field, parse_problem
from evo.promotion.policy import policy_from
from evo.space import Space, Tunable
from evo.strategy import named
from evo.text.suggestion import closest, number_meant


class Started(BaseException):
    """The command line is accepted, and the search would start."""


@pytest.fixture(autouse=True)
def _no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any, **__: Any) -> None:
        raise Started

    monkeypatch.setattr(session, "run", start)
    monkeypatch.setattr(shapes, "run", start)


SEARCHES = [
    ("softmax --problem 1k", "softmax --problem rows=1024"),
    ("softmax --problem 1024", "softmax --problem rows=1024"),
    ("softmax --problem rows:1024", "softmax --problem rows=1024"),
    ("softmax --problem 'rows 1024'", "softmax --problem rows=1024"),
    ("""softmax --problem '{"rows": 64, "cols": 32}'""", "softmax --problem rows=64,cols=32"),
    ("softmax --problem rows=[64,128]", "softmax --problem rows=64,128"),
    ("softmax --problem 'rows=64|128'", "softmax --problem rows=64,128"),
    ("softmax --problem rows=64:128", "softmax --problem rows=64..128"),
    ("softmax --problem 'rows=range(64, 128)'", "softmax --problem rows=64..127"),
    ("sdpa --problem causal", "sdpa --problem causal=false"),
    ("softmax --cache HOT", "softmax --cache hot"),
    ("softmax --minutes 5m", "softmax --minutes 5"),
    ("softmax --minutes 90s", "softmax --minutes 1.5"),
    ("softmax --minutes 1h", "softmax --minutes 60"),
    ("softmax --minutes 0,5", "softmax --minutes 0.5"),
    ("softmax --minutes 1h30m", "softmax --minutes 90"),
    ("softmax --minutes '5 min 30 s'", "softmax --minutes 5.5"),
    ("softmax --minutes PT5M", "softmax --minutes 5"),
    ("softmax --minutes 1:02:00", "softmax --minutes 62"),
    ("softmax --minutes 1:30", "softmax --minutes 1.5"),
    ("softmax --minutes 1:30", "softmax --minutes 90"),
    ("softmax --minutes inf", "softmax --minutes 1000000000"),
    ("softmax --trials all", "softmax --trials 1000000000"),
    ("softmax --problem rows=64,,cols=32", "softmax --problem rows=64,cols=32"),
    ("softmax --trials 1e3", "softmax --trials 1000"),
    ("softmax --trials 1k", "softmax --trials 1000"),
    ("softmax --trials 1,000", "softmax --trials 1000"),
    ("softmax --device-memory 24GB", "softmax --device-memory 24"),
    ("softmax --objective latency", "softmax --objective time"),
    ("softmax --objective GFLOPs", "softmax --objective 'maximise: gflop_s'"),
    ("softmax --objective 'minimize energy_uj'", "softmax --objective 'minimise: energy_uj'"),
    ("softmax --objective 'max: gflop_s'", "softmax --objective 'maximise: gflop_s'"),
    ("softmax --toolkit cuda=12.4", "softmax --toolkit 'cuda>=12.4'"),
    ("softmax --trails 5", "softmax --trials 5"),
    ("softmax --n_trials 5", "softmax --trials 5"),
    ("softmax -trials 5", "softmax --trials 5"),
    ("softmax --timeout 5", "softmax --minutes 5"),
    ("softmax --gpu", "softmax --device cuda"),
    ("softmax --rows 64", "softmax --problem rows=64"),
    ("softmax rows=64", "softmax --problem rows=64"),
]


@pytest.mark.parametrize(("wrong", "pasted"), SEARCHES)
def test_suggested_search_command_is_accepted(wrong: str, pasted: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["search", *shlex.split(wrong)]) == 2
    error = capsys.readouterr().err
    changed = [word for word in shlex.split(pasted) if word not in shlex.split(wrong)]
    suggestion = error.rpartition("write ")[2]
    assert all(word in suggestion for word in changed), error
    with pytest.raises(Started):
        entry.main(["search", *shlex.split(pasted)])


@pytest.mark.parametrize(
    ("wrong", "example"),
    [
        ("--minutes 0", "--minutes 1"),
        ("--minutes nan", "--minutes 1"),
        ("--minutes soon", "--minutes 1"),
        ("--minutes 1e12", "--minutes 1000000000"),
        ("--trials 0", "--trials 1"),
        ("--trials ten", "--trials 1"),
        ("--trials 1.5", "--trials 1"),
        ("--trials 1e12", "--trials 1000000000"),
        ("--seed -1", "--seed 0"),
        ("--seed random", "--seed 0"),
        ("--threads 0", "--threads 1"),
        ("--threads auto", "--threads 1"),
        ("--priority high", "--priority 0"),
        ("--device-memory half", "--device-memory 1"),
        ("--cache l2", "--cache hot"),
        ("--launch graphs", "--launch plain"),
        ("--problem rows=0", "rows=1024"),
        ("--problem rows=64x128", "rows=1024"),
        ("--problem dtype=int8", "dtype=float32"),
        ("--problem rows=64,rows=128", "rows=128"),
    ],
)
def test_error_for_an_ambiguous_option_ends_with_an_accepted_example(
    wrong: str, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["search", "softmax", *wrong.split()]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"Error: {wrong.partition(' ')[0]}")
    assert error.rpartition(", e.g. ")[2].strip("`") in (example, example.partition("=")[2]), error
    with pytest.raises(Started):
        entry.main(["search", "softmax", *(example if example.startswith("--") else f"--problem {example}").split()])


@pytest.mark.parametrize(
    ("wrong", "pasted"),
    [
        ("seach softmax", "search"),
        ("tune softmax", "search"),
        ("ls", "searches"),
        ("version", "--version"),
        ("help search", "--help"),
        ("champion list", "champion show"),
    ],
)
def test_error_for_an_unknown_command_suggests_an_existing_command(
    wrong: str, pasted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(wrong.split()) == 2
    assert f"; write `kernel-evo {pasted}`" in capsys.readouterr().err
    words = pasted.split() if pasted.startswith("--") else [*pasted.split(), "--help"]
    assert entry.main(words) == 0


FIELDS = (
    Field(name="N", type="int", min=1, max=4096, default=64),
    Field(name="x", type="float", default=1.0),
    Field(name="on", type="bool", default=False),
    Field(name="dtype", type="choice", choices=("float32", "float16", "bfloat16"), default="float32"),
    Field(name="op", type="text", default="relu"),
)


@pytest.mark.parametrize(
    ("field", "wrong", "meant"),
    [
        ("N", "1k", "1024"),
        ("N", "1K", "1024"),
        ("N", "1_024", "1024"),
        ("N", "2**10", "1024"),
        ("N", "2^10", "1024"),
        ("N", "1<<10", "1024"),
        ("N", "4*256", "1024"),
        ("N", "0x400", "1024"),
        ("N", "1e3", "1000"),
        ("N", "64.0", "64"),
        ("N", "=64", "64"),
        ("N", "1KiB", "1024"),
        ("on", "T", "true"),
        ("on", "none", "false"),
        ("dtype", "half", "float16"),
        ("dtype", "torch.float16", "float16"),
        ("dtype", "FLOAT16", "float16"),
        ("dtype", "'float16'", "float16"),
        ("dtype", "bf16", "bfloat16"),
        ("op", "leaky relu", "leaky_relu"),
    ],
)
def test_suggested_value_for_a_problem_field_is_accepted(field: str, wrong: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_problem(FIELDS, {field: wrong})
    assert raised.value.field == f"problem.{field}"
    assert re.search(rf"(?:write|e\.g\.) {meant}$", raised.value.reason), raised.value
    parse_problem(FIELDS, f"{field}={meant}")


@pytest.mark.parametrize("wrong", ["N=5000", "N=1g", "N=2**99", "N=abc", "N=1kk", "on=maybe"])
def test_error_for_an_uninterpretable_problem_value_contains_no_suggestion(wrong: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_problem(FIELDS, wrong)
    assert "write" not in raised.value.reason


TUNABLES = Space(
    [
        Tunable(name="BLOCK", values=(32, 64)),
        Tunable(name="ORDER", values=("rows", "columns")),
        Tunable(name="ON", values=(False, True)),
    ]
)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("BLOCK=60", "BLOCK=64"),
        ("BLOCK=1k", "BLOCK=64"),
        ("ORDER=row", "ORDER=rows"),
        ("64", "BLOCK=64"),
        ("ON=1", "ON=true"),
        ("ON=off", "ON=false"),
    ],
)
def test_suggested_value_for_a_tunable_in_config_text_is_accepted(wrong: str, meant: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_config(wrong, TUNABLES)
    assert raised.value.reason.strip("`").endswith(meant.partition("=")[2])
    assert parse_config(meant, TUNABLES) in TUNABLES


@pytest.mark.parametrize(
    ("name", "wrong", "meant"), [("BLOCK", "32", 32), ("BLOCK", 60, 64), ("ORDER", "ROWS", "rows"), ("ON", 1, True)]
)
def test_suggested_value_for_a_tunable_in_a_config_dict_is_accepted(name: str, wrong: object, meant: object) -> None:
    config = TUNABLES.default()
    with pytest.raises(InvalidInput) as raised:
        TUNABLES.check({**config, name: wrong})  # type: ignore[dict-item]
    assert raised.value.reason.endswith(f"; write {str(meant).lower()}")
    TUNABLES.check({**config, name: meant})  # type: ignore[dict-item]


@pytest.mark.parametrize("target", ["8.9", "sm89", "SM_89", "sm_89a", "compute_89", "89", "rtx4090", "RTX 4090", "ada"])
def test_error_about_a_target_name_of_another_tool_suggests_the_architecture(target: str) -> None:
    with pytest.raises(NotFound, match="did you mean `sm_89`"):
        known(target)
    assert known("sm_89").architecture == "sm_89"


@pytest.mark.parametrize(
    ("strategy", "meant"),
    [("optuna", "tpe"), ("TPE", "tpe"), ("bayesian", "tpe"), ("genetic", "evolution"), ("grid", "random")],
)
def test_error_about_a_strategy_name_of_another_tool_suggests_a_strategy(strategy: str, meant: str) -> None:
    with pytest.raises(NotFound, match=f"did you mean `{meant}`"):
        named(strategy)
    named(meant)


@pytest.mark.parametrize(
    ("device", "kind"),
    [("gpu", "cuda"), ("GPU", "cuda"), ("cuda:0", "cuda"), ("0", "cuda"), ("host", "cpu"), ("CPU", "cpu")],
)
def test_device_name_of_another_tool_is_mapped_to_a_device_kind(device: str, kind: str) -> None:
    assert closest(device, kinds()) == kind


@pytest.mark.parametrize("text", ["cuda12", "cuda=12", "cuda >12", "cuda==12", "cuda:12"])
def test_toolkit_suggested_by_an_error_is_accepted(text: str) -> None:
    with pytest.raises(InvalidInput, match='write "cuda>=12"'):
        parse_toolkit(text)
    assert parse_toolkit("cuda>=12") == ("cuda", "12")


@pytest.mark.parametrize("text", ["", "--", "1e999", "9**9**9", "2**2000", "4096**2", "k", "1q", "0xg", "nan", "1//2"])
def test_no_number_is_suggested_for_text_without_a_number(text: str) -> None:
    assert number_meant(text) is None


@pytest.mark.parametrize(
    ("field", "wrong", "meant"),
    [
        ("minimum_gain", "5%", 0.05),
        ("minimum_gain", "0.02", 0.02),
        ("minimum_gain", 5, 0.05),
        ("quick_samples", "10", 10),
        ("quick_samples", [5], policy_from({}).quick_samples),
        ("quick_samples", "many", policy_from({}).quick_samples),
        ("minimum_gain", -1, policy_from({}).minimum_gain),
        ("max_registers", "many", policy_from({}).max_registers),
    ],
)
def test_suggested_value_for_a_policy_field_is_accepted(field: str, wrong: object, meant: float | None) -> None:
    with pytest.raises(InvalidInput) as raised:
        policy_from({field: wrong})
    assert raised.value.field == f"policy.{field}"
    assert raised.value.reason.endswith((f"; write {meant}", f", e.g. {json.dumps(meant)}"))
    assert getattr(policy_from({field: meant}), field) == meant


@pytest.mark.parametrize(
    ("field", "wrong"), [("quick_samples", "many"), ("quick_samples", "1.5"), ("minimum_gain", "-1")]
)
def test_error_for_an_uninterpretable_policy_value_contains_no_suggestion(field: str, wrong: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        policy_from({field: wrong})
    assert "write" not in raised.value.reason


@pytest.mark.parametrize("version", [">=12.4", "v12.4", "12.4+"])
def test_toolkit_version_suggested_by_an_error_is_accepted(version: str) -> None:
    with pytest.raises(InvalidInput, match=r'write "12\.4"$'):
        Requirements(toolkit={"cuda": version})
    assert Requirements(toolkit={"cuda": "12.4"}).words == ("cuda 12.4 or newer",)


def first_error(error: ValidationError, body: object) -> dict[str, str]:
    """Return the first error as a service reports it."""
    return wrong_fields([{**each, "loc": ("body", *each["loc"])} for each in error.errors()], body)[0]


@pytest.mark.parametrize(
    ("wrong", "says", "pasted"),
    [
        ({"budget": {"minutes": "5m"}}, "; write 5", {"budget": {"minutes": 5}}),
        ({"budget": {"trials": "1e3"}}, "; write 1000", {"budget": {"trials": 1000}}),
        ({"budget": {"n_trials": 5}}, "did you mean `trials`?", {"budget": {"trials": 5}}),
        ({"requirements": {"memory_gb": "24GB"}}, "; write 24", {"requirements": {"memory_gb": 24}}),
        ({"objective": {"cache": "HOT"}}, '; write "hot"', {"objective": {"cache": "hot"}}),
        (
            {"objective": {"metric": "gb_s", "direction": "max"}},
            '; write "maximise"',
            {"objective": {"metric": "gb_s", "direction": "maximise"}},
        ),
        ({"budget": {"minutes": "1h30m"}}, "; write 90", {"budget": {"minutes": 90}}),
        ({"budget": {"minutes": "1:30"}}, "; write 1.5 or 90", {"budget": {"minutes": 1.5}}),
        ({"budget": {"trials": "all"}}, ", e.g. 1", {"budget": {"trials": 1}}),
        ({"budget": {"trials": [1]}}, ", e.g. 1", {"budget": {"trials": 1}}),
        ({"seed": 2**70}, f", e.g. {2**63 - 1}", {"seed": 2**63 - 1}),
        ({"priority": 2000}, ", e.g. 1000", {"priority": 1000}),
        ({"strategy": ["tpe"]}, '; write "tpe"', {"strategy": "tpe"}),
        ({"notes": 5}, '; write "5"', {"notes": "5"}),
        ({"from_default": "yes"}, "; write true", {"from_default": True}),
        ({"problem": {"rows": [64, 128]}}, ", e.g. 64", {"problem": {"rows": 64}}),
    ],
)
def test_suggested_value_for_a_request_field_is_accepted(
    wrong: dict[str, Any], says: str, pasted: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError) as raised:
        SearchRequest.model_validate({"family": "softmax", **wrong})
    error = first_error(raised.value, {"family": "softmax", **wrong})
    assert says in error["reason"]
    SearchRequest.model_validate({"family": "softmax", **pasted})


@pytest.mark.parametrize(
    ("field", "wrong", "says"),
    [
        ("objective", "time", ', e.g. {"cache": "cold"}'),
        ("objective", [], ', e.g. {"cache": "cold"}'),
        ("objective", "cold", '; write {"cache": "cold"}'),
        ("objective", "pdl", '; write {"launch": "pdl"}'),
        ("objective", "maximise: gflop_s", '; write {"metric": "gflop_s", "direction": "maximise"}'),
        ("budget", "soon", ', e.g. {"trials": 100}'),
        ("budget", None, ', e.g. {"trials": 100}'),
        ("budget", 50, '; write {"trials": 50}'),
        ("budget", "50 trials", '; write {"trials": 50}'),
        ("budget", "5 min", '; write {"minutes": 5}'),
        ("budget", [{"trials": 5}], '; write {"trials": 5}'),
        ("requirements", "a lot", ', e.g. {"memory_gb": 24}'),
        ("requirements", "24GB", '; write {"memory_gb": 24}'),
        ("requirements", "cuda>=12.4", '; write {"toolkit": {"cuda": "12.4"}}'),
        ("webhook", "https://example.org/x", '; write {"url": "https://example.org/x"}'),
        ("webhook", 5, ', e.g. {"url": "https://example.org/hook"}'),
        ("warm_start", "a.json", ', e.g. {"source": "notes", "configs": [{"BLOCK": 64}]}'),
        ("warm_start", [{"W": 1}], '; write {"source": "notes", "configs": [{"W": 1}]}'),
        ("policy", 5, 'e.g. "default" or {"minimum_gain": 0.05}'),
        ("problem", 64, 'e.g. "S=512" or {"S": 512}'),
        ("", "softmax", ', e.g. {"family": "sdpa"}'),
    ],
)
def test_error_about_a_value_that_must_be_an_object_shows_an_example(field: str, wrong: object, says: str) -> None:
    def sent(value: object) -> object:
        return {"family": "softmax", field: value} if field else value

    with pytest.raises(ValidationError) as raised:
        SearchRequest.model_validate(sent(wrong))
    error = first_error(raised.value, sent(wrong))
    assert error["field"] == (field or "body")
    assert error["reason"].endswith(says)
    for written in re.split(r" or ", re.split(r"write |e\.g\. ", says)[1]):
        SearchRequest.model_validate(sent(json.loads(written)))

"""The CLI reads configs, policies and devices, and refuses invalid options with a remedy."""

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.main import get_command

from evo.cli import main as entry
from evo.cli.arguments.config import parse_config
from evo.cli.commands.fleet.services import _token
from evo.cli.commands.search import search
from evo.cli.commands.variants.evolve import prices_of
from evo.cli.service.child import RESTARTS, ChildFailed, Deaths
from evo.cli.service.devices import choose
from evo.cli.service.local import Local
from evo.cli.service.locations import LocalDatabase, ServiceRef
from evo.cli.service.options import on_service
from evo.cli.session.request import Request, read_policy
from evo.cli.session.session import begun
from evo.device import Device
from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.messages.view import Page, ProvingView, SearchView
from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from templates import registry
from tests.unit.views import NOW, view
from workers.backends.cuda.device import CudaDriver

SPACE = Space(
    [
        Tunable(name="BLOCK", values=(4, 8, 16), default=8),
        Tunable(name="UNROLL", values=(1, 2), default=1),
        Tunable(name="FAST", values=(False, True), default=False),
    ],
    [Constraint(expression=Expression.parse("BLOCK * UNROLL <= 16", "constraint"), because="registers")],
)


def test_config_keeps_defaults_of_omitted_tunables() -> None:
    assert parse_config("", SPACE) == {"BLOCK": 8, "UNROLL": 1, "FAST": False}
    assert parse_config("FAST=true, BLOCK=4", SPACE) == {"BLOCK": 4, "UNROLL": 1, "FAST": True}


def test_empty_config_text_gives_a_valid_config_if_the_defaults_are_invalid() -> None:
    narrow = Space(SPACE.tunables, [Constraint(expression=Expression.parse("BLOCK < 8", "constraint"), because="few")])
    assert parse_config("", narrow) == {"BLOCK": 4, "UNROLL": 1, "FAST": False}
    with pytest.raises(InvalidInput, match=r"BLOCK=8 violates"):
        parse_config("FAST=true", narrow)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("BLOK=4", "config.BLOK: there is no `BLOK`; did you mean `BLOCK`?"),
        ("BLOCK=5", "config.BLOCK: 5 is not one of 4, 8, 16"),
        ("BLOCK", "`BLOCK` is not of the form NAME=VALUE"),
        ("BLOCK=16,UNROLL=2", "BLOCK=16, UNROLL=2 violates `BLOCK * UNROLL <= 16` (registers)"),
    ],
)
def test_error_names_the_invalid_tunable_of_a_config(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_config(text, SPACE)
    assert said in str(refusal.value)


def context() -> typer.Context:
    return typer.Context(get_command(entry.app).commands["search"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", ["search", "record"])
@pytest.mark.parametrize(
    "words",
    ["--problem S=3", "--seed 0", "--device cpu", "--cache hot", "--threads 1"],
)
def test_options_without_effect_on_a_resumed_search_are_refused(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main([command, "--resume", "1", *words.split()]) == 2
    assert capsys.readouterr().err.startswith(f"Error: {words.split(maxsplit=1)[0]}: has no effect with --resume")


@pytest.mark.parametrize(
    "words",
    ["--trials 5", "--minutes 5", "--stagnation 5", "--cost-per-hour 1", "--strategy tpe", "--policy default",
     "--any-order", "--target sm_89", "--compile-only", "--from-default", "--device-memory 4", "--toolkit gcc>=1",
     "--priority 0", "--webhook http://a/b", "--notes x", "--detach --seed 1"],
)  # fmt: skip
def test_options_for_new_searches_are_refused_with_resume(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["search", "--resume", "1", *words.split()]) == 2
    assert "has no effect with --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        ("new @", "FOLDER"),
        ("import k.c --folder @", "--folder"),
        ("render softmax --to @", "--to"),
        ("report 1 --to @", "--to"),
        ("suite record @", "SCRIPT"),
        ("variant submit @ --search 1", "FOLDER|FILE"),
        ("variant source 1 1 --out @", "--out"),
        ("champion called @", "FILE"),
        ("champion export 1 --to @", "--to"),
        ("export --suite zoo --to @", "--to"),
        ("bench kernelbench @ --proposer folder:x", "FOLDER"),
        ("worker --url http://127.0.0.1:1 --token-file @", "--token-file"),
        ("worker --url http://127.0.0.1:1 --data @", "--data"),
    ],
)
def test_empty_path_is_refused_by_name_instead_of_meaning_the_current_folder(
    command: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert entry.main(["" if word == "@" else word for word in command.split()]) == 2
    assert capsys.readouterr().err.startswith(f"Error: {argument}: is empty; write a path, such as ./name")
    assert list(tmp_path.iterdir()) == []


def test_webhook_secret_without_a_webhook_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["search", "sdpa", "--webhook-secret", "x" * 16]) == 2
    assert "--webhook-secret: has no effect without --webhook" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "target", "said"),
    [
        ("auto", None, "--compile-only: needs --target, the GPU of the estimates, e.g. --target sm_89"),
        ("cpu", "sm_89", "--compile-only: runs no kernel, so --device cpu does not apply"),
    ],
)
def test_compile_only_option_requires_a_target_and_excludes_a_device(
    device: str, target: str | None, said: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        search(context(), "sdpa", device=device, target=target, compile_only=True)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"threads": 4}, "--threads: applies to CPU kernels only, and --compile-only estimates for a GPU"),
        ({"ablate": True}, "--ablate: needs a champion, and --compile-only promotes none"),
    ],
)
def test_threads_and_ablate_options_are_refused_with_compile_only(terms: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        search(context(), "sdpa", target="sm_89", compile_only=True, **terms)
    assert said in str(refusal.value)


def test_error_about_a_missing_gpu_suggests_compile_only_exactly_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(_: Request, __: object) -> None:
        raise Conflict("no connected worker offers softmax a device 'cuda'")

    def none(_: object) -> tuple[list[Device], str]:
        return [], "this machine has no NVIDIA driver"

    monkeypatch.setattr(Request, "submit", nobody)
    monkeypatch.setattr(CudaDriver, "look", none)
    usual = {"family": "softmax", "problem": "", "policy": "default", "device": "cuda"}
    for objective in ({"target": "sm_89"}, {}):
        with pytest.raises(EvoError) as refusal:
            begun(Request.of(**usual, objective=objective), SimpleNamespace(client=None), ServiceRef())  # type: ignore[arg-type]
        assert str(refusal.value).count("--compile-only") == 1
        assert "this machine has no NVIDIA driver" in str(refusal.value)


@pytest.mark.parametrize("name", ["gates.toml", "gates.json"])
def test_policy_is_read_from_a_toml_or_json_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('minimum_gain = 0.05\nbase = "l4-notes"' if path.suffix == ".toml" else '{"minimum_gain": 0.05}')
    document = read_policy(str(path))
    assert isinstance(document, dict)
    assert document["minimum_gain"] == 0.05


@pytest.mark.parametrize(
    ("text", "said"),
    [("minimum_gain =", "cannot be read"), ("minimum_gain = 'much'", "policy.minimum_gain: expected a number")],
)
def test_invalid_policy_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "gates.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refusal:
        read_policy(str(path))
    assert said in str(refusal.value)


def test_policy_that_is_not_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gates.json").write_text("[1, 2]")
    with pytest.raises(InvalidInput, match="must contain fields and values"):
        read_policy(str(tmp_path / "gates.json"))


@pytest.mark.parametrize("name", ["gates.json", "gates.toml"])
def test_too_deeply_nested_policy_is_refused(tmp_path: Path, name: str) -> None:
    deep = "[" * 100_000
    (tmp_path / name).write_text(deep if name.endswith("json") else f"seeds = {deep}")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_policy(str(tmp_path / name))


CPU = Device(kind="cpu", model="AMD EPYC", architecture="x", uuid="1")
CUDA = Device(kind="cuda", model="NVIDIA L4", architecture="sm_89", uuid="2")


def test_device_is_selected_among_devices_that_the_family_supports() -> None:
    sdpa = registry.find("sdpa").family
    cpu_only = registry.find(str(Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy")).family
    assert choose([CUDA, CPU], "cpu", sdpa) is CPU
    assert choose([CUDA, CPU], "amd", sdpa) is CPU
    assert choose([CUDA, CPU], "auto", cpu_only) is CPU
    with pytest.raises(NotFound) as refusal:
        choose([CUDA], "auto", cpu_only)
    assert str(refusal.value) == (
        "no device fits --device auto; saxpy runs on cpu, and this machine has these devices: cuda (NVIDIA L4)"
    )


def test_log_and_worker_data_are_next_to_the_database(tmp_path: Path) -> None:
    place = LocalDatabase.of(tmp_path / "my.db")
    assert place.log("worker") == tmp_path / "my.db.worker.log"
    assert place.worker_data == tmp_path / "my.db.worker"


def test_default_database_is_in_the_data_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert LocalDatabase.of(None).database.name == "kernel-evo.db"
    assert "kernel-evo" in str(LocalDatabase.of(None).database.parent)


def test_command_waits_for_a_confirmation_that_another_terminal_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proving = view(proving=ProvingView(job="confirm", trial=1, since=NOW))
    looks, drained = [[proving], [proving], []], list[str]()

    class Service:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> "Service":
            return self

        def __exit__(self, *_: object) -> None: ...
        def searches(self, *, state: str, limit: int) -> Page[SearchView]:
            return Page(items=tuple(looks.pop(0)) if state == "running" else ())

        def drain(self, worker_id: str) -> None:
            drained.append(worker_id)

    monkeypatch.setattr("evo.cli.service.local.Client", Service)
    monkeypatch.setattr("evo.cli.service.local.PROVEN_S", 0.0)
    local = Local(LocalDatabase.of(tmp_path / "my.db"), measuring=True)
    local.let_finish()
    assert len(looks) == 3, "a command without its own worker does not query the searches"
    local.url, local._worker = "http://127.0.0.1:9", SimpleNamespace(exit_code=None)  # type: ignore[assignment]
    local.let_finish()
    assert (looks, drained) == ([], ["local"])
    assert "confirms or ablates search 3 (sdpa) for another terminal. This command waits" in capsys.readouterr().err


def test_suggested_commands_contain_the_url_or_database_options() -> None:
    assert ServiceRef().options == ""
    assert ServiceRef(database=Path("x.db")).options == " --db x.db"
    assert ServiceRef(url="http://h", database=Path("x.db")).options == " --url http://h"


def test_child_failed_is_raised_if_a_child_process_ends_too_often() -> None:
    class Dead:
        name = "worker"

        def last_words(self) -> str:
            return "no device"

    deaths = Deaths()
    for _ in range(RESTARTS):
        deaths.record(Dead())  # type: ignore[arg-type]
    with pytest.raises(ChildFailed, match="the worker ended unexpectedly 6 times within a minute: no device"):
        deaths.record(Dead())  # type: ignore[arg-type]


def test_worker_token_is_read_from_an_option_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert _token("given", None) == "given"
    for text, reason in ((None, "cannot be read"), (" \n", "is empty")):
        if text is not None:
            file.write_text(text)
        with pytest.raises(InvalidInput, match=reason):
            _token(None, file)
    file.write_text("kej_secret\n")
    assert _token(None, file) == "kej_secret"
    with pytest.raises(InvalidInput, match="cannot be given together with --token"):
        _token("given", file)


def test_on_service_decorator_replaces_the_service_argument_with_options() -> None:
    found: list[tuple[int, ServiceRef, bool]] = []

    @on_service
    def command(number: int, *, where: ServiceRef, as_json: bool = False) -> None:
        found.append((number, where, as_json))

    command(3, url="http://h", token="t", as_json=True)
    command(4, db=Path("x.db"))
    assert list(inspect.signature(command).parameters) == ["number", "url", "token", "db", "as_json"]
    assert found == [(3, ServiceRef(url="http://h", token="t"), True), (4, ServiceRef(database=Path("x.db")), False)]


@pytest.mark.parametrize(
    ("price_in", "price_out", "field"),
    [(None, None, "--price-in"), (3.0, None, "--price-out"), (None, 7.0, "--price-in"), (0.0, 0.0, "--price-in")],
)
def test_budget_in_usd_needs_the_prices_of_input_and_output_tokens(
    price_in: float | None, price_out: float | None, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        prices_of(price_in, price_out, 1.0)
    assert refused.value.field == field


def test_model_price_of_zero_is_accepted() -> None:
    assert prices_of(0.0, 7.0, 1.0).of(1_000_000, 1_000_000) == 7.0
    assert prices_of(None, None, None).of(1_000_000, 1_000_000) == 0.0

"""Each error of the CLI is printed as one line and sets the exit code, and every command has help."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from evo.cli import main as entry
from evo.cli.arguments.usage import typed, user_text
from evo.cli.exits import MEANING, Exit
from evo.cli.reference import DOCUMENT, reference
from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.strategy import STRATEGIES
from evo.variants.proposers import PROPOSERS
from tests.unit.views import finished


def commands() -> Iterator[list[str]]:
    for name, command in get_command(entry.app).commands.items():  # type: ignore[attr-defined]
        for below in getattr(command, "commands", {"": None}):
            yield [name, below] if below else [name]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_with_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([*command, "--help"]) == Exit.DONE
    shown = capsys.readouterr().out
    assert f"kernel-evo {' '.join(command)}" in shown.partition("Examples:")[2]
    assert "``" not in shown


def test_every_example_in_the_help_is_parsed() -> None:
    root: Any = get_command(entry.app)
    for command in commands():
        chosen = root
        for name in command:
            chosen = chosen.commands[name]
        for line in re.findall(r"kernel-evo (.*?)(?: && .*| > .*)?$", chosen.epilog or "", re.MULTILINE):
            called, words = root, shlex.split(line)
            while words and words[0] in getattr(called, "commands", ()):
                called = called.commands[words.pop(0)]
            assert called.make_context("example", words), line


def test_cli_has_exactly_the_listed_commands() -> None:
    searching = "search searches trials report ablate watch pause resume stop cancel edit delete gc"
    wanted = f"{searching} evolve mcp export measure render new import families serve worker doctor"
    champion = [f"champion {each}" for each in ("show", "called", "export", "rollback", "restore")]
    workers = [f"workers {each}" for each in ("list", "drain", "resume", "quarantine", "clear")]
    tokens = [f"token {each}" for each in ("create", "join", "list", "revoke", "rotate")]
    benches = ["bench kernelbench"]
    variants = [f"variant {each}" for each in ("brief", "list", "propose", "show", "source", "submit")]
    assert {" ".join(command) for command in commands()} == {
        "record",
        "mission",
        *wanted.split(),
        *champion,
        *workers,
        *tokens,
        *variants,
        *benches,
        "suite record",
        "suite show",
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("problem.S", "is 0, at least 1 is needed"), 2),
        (NotFound("there is no family `sdpb`"), 2),
        (Conflict("search 3 is finished"), 4),
        (EvoError("the database is locked"), 3),
    ],
)
def test_expected_error_prints_one_line_and_sets_the_exit_code(
    error: EvoError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(entry, "app", fail)
    assert entry.main(["search"]) == code
    assert capsys.readouterr() == ("", f"Error: {error}\n".replace("problem.S", "--problem S"))


def test_unexpected_error_is_reported_as_a_bug_and_its_traceback_is_stored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(entry, "app", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert entry.main([]) == Exit.BUG
    shown_error = capsys.readouterr().err
    (log,) = tmp_path.glob("kernel-evo-*.log")
    where = f"test_cli_main.py, line {fail.__code__.co_firstlineno + 1}"
    assert shown_error == (
        f"Error: this is a bug in kernel-evo (ZeroDivisionError in {where}: division by zero)\n  details: {log}\n"
    )
    assert "Traceback" in log.read_text()
    for _ in range(entry.KEPT_CRASHES + 2):
        entry.main([])
    assert len(list(tmp_path.glob("kernel-evo-*.log"))) == entry.KEPT_CRASHES


def test_truncated_bytecode_is_reported_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load() -> None:
        raise EOFError("marshal data too short")

    app = typer.Typer()
    app.command()(load)
    monkeypatch.setattr(entry, "app", app)
    assert entry.main([]) == Exit.UNAVAILABLE
    assert (
        "a bytecode file of Python is truncated, e.g. by a full disk; free some space and delete"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("there is no search 7: GET /searches lists them", "there is no search 7: `kernel-evo searches` lists them"),
        ("no trial 3: GET /searches/7/trials", "no trial 3: `kernel-evo trials 7`"),
        ("GET /workers lists the devices of each worker", "`kernel-evo workers` lists the devices of each worker"),
        (
            "no service answers at https://me:se%20cret@far:8/x: (why)",
            "no service answers at https://me:***@far:8/x: (why)",
        ),
        ("no database at /here/postgresqll:/me:secret@db/evo", "no database at /here/postgresqll:/me:***@db/evo"),
        ("http://127.0.0.1:8000 said that me@home is out", "http://127.0.0.1:8000 said that me@home is out"),
    ],
)
def test_error_texts_name_cli_commands_instead_of_rest_paths(message: str, shown: str) -> None:
    assert user_text(message) == shown


def test_stored_command_line_contains_no_secret() -> None:
    given = ["kernel-evo", "workers", "--token", "t0k", "--token=t0k", "--url", "http://me:secret@far"]
    assert typed(given) == "kernel-evo workers --token *** --token=*** --url http://me:***@far"


def test_json_option_prints_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["families", "sdpb", "--json"]) == Exit.WRONG_INPUT
    shown_error = json.loads(capsys.readouterr().err)
    assert shown_error["code"] == Exit.WRONG_INPUT
    assert "did you mean `sdpa`" in shown_error["error"]


def test_file_system_error_is_not_reported_as_a_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert entry.main(["new", str(tmp_path / "file" / "saxpy")]) == Exit.UNAVAILABLE
    assert (
        f"Error: FOLDER: {tmp_path / 'file' / 'saxpy'} cannot be written (File exists); choose"
        in capsys.readouterr().err
    )


def test_debug_option_prints_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(arguments: list[str], **_: object) -> None:
        assert arguments == ["searches"]
        raise NotFound("nothing")

    monkeypatch.setattr(entry, "app", fail)
    assert entry.main(["searches", "--debug"]) == Exit.WRONG_INPUT
    assert "Traceback" in capsys.readouterr().err


def test_unknown_option_is_invalid_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["searches", "--no-such-thing"]) == Exit.WRONG_INPUT
    assert "--no-such-thing" in capsys.readouterr().err


def test_search_without_family_suite_or_resume_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["search"]) == Exit.WRONG_INPUT
    expected = "name a family, or choose a suite with --suite, or a search with --resume"
    assert expected in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("line", "shown_error"),
    [
        (f"search sdpa --minutes {wrong}", f"--minutes: {wrong} is out of range; accepted: 0.01 … 1,000,000,000")
        for wrong in ("0", "-1", "inf", "nan", "1e10")
    ]
    + [
        ("search sdpa --minutes ten", "--minutes: 'ten' is not a number; accepted: 0.01 … 1,000,000,000"),
        ("search sdpa --trials 1.5", "--trials: '1.5' is not a whole number; accepted: 1 … 1,000,000,000"),
        (f"search sdpa --trials {'9' * 60}", f"--trials: {'9' * 40}… is out of range; accepted: 1 … 1,000,0"),
        ("search sdpa --seed -1", "--seed: -1 is out of range; accepted: 0 and more"),
        ("trials x", "SEARCH: 'x' is not a whole number; accepted: 1 and more"),
        ("trials", "SEARCH: is missing: Number of the search, as listed by `kernel-evo searches`"),
        ("searches --state runing", "--state: 'runing' is not one of 'running', 'paused'"),
        (
            "search softmax --objective worst",
            "--objective: `worst` is the largest slowdown among problems that are tuned together; pass the problems",
        ),
        (
            "search a.json --objective score",
            "--objective: 'score' is neither `time` nor a direction with a metric; accepted: time, minimise:",
        ),
        ("trials -1", "SEARCH: -1 begins with `-`, as options do; numbers begin at 1; see `kernel-evo trials --help`"),
        (
            "champion export -12 --to x",
            "CHAMPION: -12 begins with `-`, as options do; numbers begin at 1; see `kernel-evo champion export --help`",
        ),
        (
            "measure -2.5",
            "FAMILY: -2.5 begins with `-`, as options do; write a name, or a path such as ./-2.5; "
            "see `kernel-evo measure --help`",
        ),
        ("searches -1", "No such option: -1: see `kernel-evo searches --help`"),
        ("searches --limt 3", "No such option: --limt; write --limit, or see `kernel-evo searches --help`"),
        ("serch", "No such command 'serch'; write `kernel-evo search`"),
        ("validate ./f", "No such command 'validate'; write `kernel-evo measure`"),
        (
            "measure softmax --config WIDTH=16 UNROLL=4",
            "Got unexpected extra argument (UNROLL=4); separate the values by a comma: --config WIDTH=16,UNROLL=4",
        ),
        (
            "searches --url notaurl",
            "--url: 'notaurl' is not the address of a service; write one like http://127.0.0.1:8765",
        ),
        ("searches --url http://[::1", "--url: 'http://[::1' is not the address"),
        (
            "searches --url http://u:p@a:1",
            "--url: 'http://u:***@a:1' contains a user name (a service accepts only tokens)",
        ),
        ("searches --url http://u@a:1", "--url: 'http://u@a:1' contains a user name"),
        ("searches --url http://a:1/evo?x=1", "--url: 'http://a:1/evo?x=1' contains a `?`; remove it, as in http://"),
        ("searches --url http://a:1#x", "--url: 'http://a:1#x' contains a `#`; remove it"),
        (
            "searches --url http://a:1/evo/api/v1/",
            "--url: 'http://a:1/evo/api/v1/' contains /api/v1, which the client adds",
        ),
        (
            "searches --url http://127.0.0.1:1 --token ü",
            "--token: contains characters that a token cannot have, e.g. a",
        ),
        ("token join a --hours nan", "--hours: nan is out of range; accepted: 0.001 … 876,000"),
    ],
)
def test_invalid_option_value_is_reported_in_one_line_with_the_option(
    line: str, shown_error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(line.split()) == Exit.WRONG_INPUT
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"Error: {shown_error}") and printed.err.count("\n") == 1
    assert entry.main([*line.split(), "--json"]) == Exit.WRONG_INPUT
    told = json.loads(capsys.readouterr().err)
    assert told["error"].startswith(shown_error) and told["code"] == 2


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("webhook.url", "--webhook"),
        ("budget.minutes", "--minutes"),
        ("budget.cost", "--max-cost"),
        ("objective.threads", "--threads"),
        ("requirements.toolkit.cuda", "--toolkit cuda"),
        ("warm_start.configs.0", "--warm-start configs"),
        ("policy.minimum_gain", "--policy minimum_gain"),
        ("keep_days", "--keep-days"),
        ("db", "--db"),
        ("outcome.0", "--outcome"),
        ("cuda.launch.grid", "cuda.launch.grid"),
        ("family", "FAMILY"),
        ("family.toml: cpu.foo", "family.toml: cpu.foo"),
        ("document: cpu.constraints[3].expression", "family.toml: cpu.constraints[3].expression"),
    ],
)
def test_error_names_the_option_of_a_field_refused_by_the_service(field: str, option: str) -> None:
    assert entry.message_of(InvalidInput(field, "is wrong")) == f"{option}: is wrong"


@pytest.mark.parametrize(
    ("line", "given", "reason"),
    [
        ("serve --port 0", "KERNEL_EVO_DB=postgresql://host", "the URL names no database; write postgresql://"),
        ("serve --port 0", "KERNEL_EVO_DB=postgres://a:b:c@[::1/x", "this is not a database URL; write postgresql"),
        ("searches", "KERNEL_EVO_DB=postgresql://u@host/evo", "only a service opens a PostgreSQL database; start"),
        ("searches", "KERNEL_EVO_DB=sqlite:///evo.db", "is a URL; use the path of the SQLite file"),
        ("serve --port 0", "KERNEL_EVO_DB=sqlite:////tmp/evo.db", "is a URL; use the path of the SQLite file"),
        ("search softmax", "KERNEL_EVO_DB=file:///tmp/evo.db", "is a URL; use the path of the SQLite file"),
        ("serve --port 0", "KERNEL_EVO_DB=mysql+pymysql://h/evo", "must be the path of an SQLite file or postgresql"),
        ("searches", "KERNEL_EVO_DB=/", "/ is a folder; use the path of an SQLite file"),
        ("searches", "KERNEL_EVO_DB=/dev/null", "/dev/null is a special file; use the path of an SQLite file"),
        ("searches", "KERNEL_EVO_DB=https://h:1/x", "is the address of a service; pass it with --url"),
        (
            "searches",
            "KERNEL_EVO_URL=evo.example.org",
            "'evo.example.org' is not the address of a service; write one like",
        ),
        ("searches --url http://127.0.0.1:1", "KERNEL_EVO_TOKEN=a\nb", "contains characters that a token cannot have"),
        ("worker", "KERNEL_EVO_URL=http://x:99999", "'http://x:99999' is not the address of a service; write one like"),
    ],
)
def test_error_names_the_invalid_environment_variable_and_the_remedy(
    line: str, given: str, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variable, _, value = given.partition("=")
    monkeypatch.setenv(variable, value)
    assert entry.main(line.split()) == Exit.WRONG_INPUT
    printed = capsys.readouterr().err
    assert printed.startswith(f"Error: {variable}: {reason}") and f"`unset {variable}`" in printed


@pytest.mark.parametrize("typed", [["--db", "/"], ["--db=/"]])
def test_options_have_precedence_over_the_environment(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNEL_EVO_DB", "/tmp")
    assert entry.main(["searches", *typed]) == Exit.WRONG_INPUT
    assert capsys.readouterr().err.startswith("Error: --db: ")


def test_search_request_contains_requirements_and_webhook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("evo.cli.session.session.run", lambda request, *_, **__: asked.append(request.terms) or 0)
    devices = ["--device-uuid", "GPU-1", "--device-memory", "22", "--toolkit", "cuda>=12.4", "--toolkit", "gcc>=12"]
    told = ["--webhook", "https://example.org/ended", "--webhook-secret", "a secret of some length"]
    assert entry.main(["search", "softmax", *devices, *told]) == Exit.DONE
    assert asked[0]["device_uuid"] == "GPU-1"
    assert asked[0]["requirements"] == {"memory_gb": 22, "toolkit": {"cuda": "12.4", "gcc": "12"}}
    assert asked[0]["webhook"] == {"url": "https://example.org/ended", "secret": "a secret of some length"}
    assert entry.main(["search", "softmax", "--toolkit", "cuda 13"]) == Exit.WRONG_INPUT
    assert "NAME>=VERSION" in capsys.readouterr().err


def test_search_of_several_shapes_prints_one_json_list_even_if_a_search_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = [finished(id=1), finished(id=2)]

    def searched(_request: Any, _where: Any, *, then: Any, tell: Any, **_: Any) -> Exit:
        if not ended:
            raise EvoError("the service went away")
        view = ended.pop(0)
        tell(view)
        then(None, view)
        return Exit.DONE

    monkeypatch.setattr("evo.cli.session.session.run", searched)
    monkeypatch.setattr("evo.cli.session.session.reached", lambda *_, **__: nullcontext())
    assert entry.main(["search", "softmax", "--problem", "rows=64,128,256", "--json"]) == Exit.UNAVAILABLE
    shown_error = capsys.readouterr()
    assert [each["id"] for each in json.loads(shown_error.out)] == [1, 2]
    assert json.loads(shown_error.err)["error"] == "the service went away"


def test_version_option_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["--version"]) == Exit.DONE
    assert capsys.readouterr().out == f"kernel-evo {version('kernel-evo')}\n"


def test_cli_reference_page_matches_the_help() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == reference(), "run: python -m evo.cli.reference"


@pytest.mark.parametrize(
    ("command", "found"),
    [("search", STRATEGIES), ("bench kernelbench", PROPOSERS), ("variant propose", PROPOSERS)],
)
def test_help_lists_discovered_plugins(
    command: str, found: dict[str, object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(found, "mine", object())
    assert entry.main([*command.split(), "--help"]) == Exit.DONE
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    ending = ":…" if found is PROPOSERS else ""
    assert f"One of {', '.join(f'{name}{ending}' for name in found)}." in shown


def test_every_exit_code_is_documented() -> None:
    assert set(MEANING) == set(Exit)

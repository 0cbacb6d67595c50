"""Errors of the CLI name the field and a remedy, and have a documented exit code."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from evo.cli.commands import doctor
from evo.cli.exits import Exit
from evo.cli.service.locations import LocalDatabase
from tests.integration.blank import prepared
from tests.integration.commands import CommandLine, recording
from tests.integration.serving import announcing, client_of
from tests.integration.stage import DEVICE

RECORDING = str(Path(__file__).parents[1] / "data" / "synthetic.json")
EXAMPLES = Path(__file__).parents[2] / "docs" / "guides" / "examples"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Yield a command line with a running service and worker, so that searches do not start them."""
    line = CommandLine.fresh(tmp_path_factory)
    with line.working():
        yield line


@pytest.fixture(scope="module")
def serving(line: CommandLine) -> Iterator[str]:
    with line.serving() as url:
        yield url


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["search", "sdpb"], "there is no `sdpb`; did you mean `sdpa`?"),
        (["search", "./nowhere"], "nowhere does not exist; pass the path of a folder"),
        (["search", "sdpa", "--problem", "Z=3"], "--problem Z: there is no `Z`"),
        (["search", "sdpa", "--problem", "S=many"], "--problem S: 'many' is not a whole number"),
        (["search", "sdpa", "--problem", "S=0"], "--problem S: 0 is out of range"),
        (["search", "sdpa", "--problem", "S"], "`S` is not of the form NAME=VALUE"),
        (["search", "sdpa", "--problem", "S=8,,B=2"], "--problem: has an empty assignment"),
        (["search", "sdpa", "--policy", "strict"], "--policy: there is no `strict`"),
        (
            ["search", "sdpa", "--policy", "gone.toml"],
            "--policy: gone.toml cannot be read (No such file or directory); use a",
        ),
        (["measure", "sdpa", "--config", "WIDHT=8"], "--config WIDHT: there is no `WIDHT`; did you mean `WIDTH`?"),
        (["measure", "sdpa", "--config", "WIDTH=7"], "--config WIDTH: 7 is not one of"),
        (["measure", RECORDING], f"FAMILY: {RECORDING} is a recording, which has no source to build; replay it with "),
        (["render", RECORDING], f"`kernel-evo search {RECORDING}`"),
        (["render", "sdpa", "--device", "tpu"], "no device fits --device tpu"),
        (["render", "sdpa_fp8", "--target", "sm_80"], "E4M3 exists from sm_89 on"),
        (["render", "gemm", "--target", "sm_89", "--device", "cpu"], "--target: replaces --device"),
        (["new", "Bad Name"], "is not a valid family name"),
        (["new", "sdpa"], "FOLDER: a built-in family is called sdpa; choose another name, e.g. kernel-evo new"),
        (["worker", "--url", "http://127.0.0.1:9", "--kind", "tpu"], "--kind: there is no `tpu`"),
    ],
)
def test_mistyped_argument_is_named_in_the_error_and_no_database_is_created(
    line: CommandLine, arguments: list[str], said: str
) -> None:
    refused = (line.run_apart if arguments[0] == "worker" else line.run)(*arguments)  # a worker would configure logging
    assert refused.code == 2
    assert refused.err.startswith("Error: ")
    assert said in refused.err
    assert "Traceback" not in refused.err
    assert not line.database.exists()


INPUTS = [
    "search sdpa --policy @.toml",
    "search sdpa --warm-start @.json",
    "search --suite @.toml",
    "search ./@",
    "mission --warm-start @.json",
    "measure ./@",
    "measure sdpa --policy @.json",
    "families @.json.gz",
    "record ./@",
    "suite show @.toml",
    "suite record @.py",
    "export --suite @.toml --to ./fast",
    "import @.cu",
    "import kernelbench @.py",
    "variant submit @.cu --search 1",
    "variant propose 1 --proposer folder:@",
    "bench kernelbench ./@ --proposer folder:.",
    "champion called @.json",
    "searches --db @.db",
    "search sdpa --db @/a.db",
]
"""Commands that read a file or folder, whose name is ``@``."""


@pytest.mark.parametrize("command", INPUTS)
@pytest.mark.parametrize("name", ["missing", "file/inside", "n" * 300], ids=["missing", "inside a file", "too long"])
def test_input_file_that_cannot_be_read_ends_with_exit_code_2(line: CommandLine, command: str, name: str) -> None:
    (line.home / "file").touch()
    refused = line.run(*command.replace("@", name).split())
    assert (refused.code, refused.out) == (Exit.WRONG_INPUT, "")
    assert refused.err.startswith("Error: ") and name[:30] in refused.err
    assert "bug" not in refused.err


def test_token_file_that_cannot_be_read_ends_with_exit_code_2(line: CommandLine) -> None:
    refused = line.run_apart("worker", "--url", "http://127.0.0.1:9", "--token-file", "missing")
    assert refused.code == Exit.WRONG_INPUT
    assert refused.err.startswith("Error: --token-file: missing cannot be read (No such file or directory); use a file")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("render softmax --to folder", Exit.WRONG_INPUT),
        ("render softmax --to /proc/kernel", Exit.UNAVAILABLE),
        ("new folder", Exit.CONFLICT),
        ("new /proc/kernel", Exit.UNAVAILABLE),
        ("import k.c --folder folder", Exit.CONFLICT),
        ("import k.c --folder /proc/kernel", Exit.UNAVAILABLE),
        ("suite record program.py --to file", Exit.CONFLICT),
        ("suite record program.py --to folder", Exit.WRONG_INPUT),
        ("suite record program.py --to /proc/kernel", Exit.UNAVAILABLE),
        ("report 1 --to file", Exit.WRONG_INPUT),
        ("record softmax --to file", Exit.WRONG_INPUT),
        ("record softmax --to /proc/kernel", Exit.UNAVAILABLE),
        ("mission --to file", Exit.CONFLICT),
        ("mission --to folder", Exit.WRONG_INPUT),
        ("mission --to /proc/kernel", Exit.UNAVAILABLE),
    ],
)
def test_result_that_cannot_be_written_ends_with_the_documented_exit_code(
    line: CommandLine, command: str, code: Exit
) -> None:
    (line.home / "folder").mkdir(exist_ok=True)
    for name in ("file", "folder/file", "program.py"):
        (line.home / name).touch()
    (line.home / "k.c").write_text("void scale(int n, float *x) { for (int i = 0; i < n; i++) x[i] *= 2; }")
    refused = line.run(*command.split())
    assert (refused.code, refused.out) == (code, "")
    assert refused.err.startswith("Error: ") and command.rsplit(maxsplit=1)[-1] in refused.err
    assert "bug" not in refused.err
    assert not line.database.exists()


@pytest.mark.slow
def test_problem_that_the_requested_device_does_not_support_is_refused(working: CommandLine) -> None:
    for device, said in (
        (("--compile-only", "--target", "sm_90"), "rows of a transposed v begin at multiples of 16 bytes"),
        (("--device", "cpu"), "the CPU kernel reads v by rows"),
    ):
        refused = working.run("search", "sdpa_fp8", "--problem", "v_layout=columns,S=100", *device)
        assert refused.code == 2
        assert said in refused.err


def test_error_names_the_unknown_field_of_a_policy_file(line: CommandLine) -> None:
    policy = line.home / "policy.toml"
    policy.write_text("minimal_gain = 0.1\n")
    refused = line.run("search", "sdpa", "--policy", str(policy))
    assert refused.code == 2
    assert "--policy minimal_gain: there is no `minimal_gain`; did you mean `minimum_gain`?" in refused.err


def test_error_for_an_empty_space_names_the_constraint_that_emptied_it(working: CommandLine, tmp_path: Path) -> None:
    family = tmp_path / "my_transpose"
    shutil.copytree(EXAMPLES / "my_transpose", family)
    spec = (family / "family.toml").read_text()
    (family / "family.toml").write_text(spec.replace("<= 32768", "<= 8"))
    refused = working.run("search", str(family))
    assert refused.code == 2
    assert "TILE_ROWS * TILE_COLUMNS * 8 <= 8" in refused.err
    assert "both tiles must fit the first-level cache" in refused.err


@pytest.mark.parametrize("command", ["search", "measure", "render"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ UNROL }}", "there is no `UNROL`; did you mean `UNROLL`?"),
        ("{% if PREFETCH %}{{ UNROL }}{% endif %}", "there is no `UNROL`; did you mean `UNROLL`?"),
        ("{% endfo %}", "Encountered unknown tag 'endfo'"),
        ("{{ UNROLL }", "unexpected '}'"),
        ("{{ UNROLL | half }}", "No filter named 'half'"),
    ],
)
def test_template_that_no_config_can_render_is_refused_with_its_line(
    line: CommandLine, tmp_path: Path, command: str, text: str, said: str
) -> None:
    family = tmp_path / "saxpy"
    shutil.copytree(EXAMPLES / "saxpy", family)
    template = family / "kernel.c.j2"
    template.write_text(f"{template.read_text()}\n{text}")
    refused = line.run(command, str(family))
    assert (refused.code, refused.out) == (2, "")
    place = f"template kernel.c.j2:{len(template.read_text().splitlines())}: "
    assert refused.err.startswith("Error: FAMILY: ") and f"{place}{said}" in refused.err


@pytest.mark.slow
def test_missing_compiler_error_names_both_ways_to_install_a_compiler(line: CommandLine) -> None:
    bare = CommandLine(home=line.home, cache=line.home / "empty", environment={"PATH": "/nonexistent", "CC": ""})
    for command in ("search", "measure"):
        refused = bare.run_apart(command, str(EXAMPLES / "saxpy"))  # this process has cached the compiler that it found
        assert refused.code == 3
        assert "install gcc or clang" in refused.err
        assert "cpu-compiler" in refused.err


@pytest.mark.slow
def test_missing_device_gives_the_same_error_in_search_and_render(working: CommandLine) -> None:
    for command in ("search", "render"):
        refused = working.run(command, "sdpa", "--device", "no-such-model")
        assert refused.code == 2
        assert "no device fits --device no-such-model" in refused.err


def test_error_names_the_unreachable_service_url(line: CommandLine) -> None:
    refused = line.run("searches", "--url", "http://127.0.0.1:9")
    assert refused.code == 3
    assert "no service answers at http://127.0.0.1:9" in refused.err


def test_error_names_the_port_that_is_already_in_use(line: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = line.run("serve", "--port", str(port))
    assert refused.code == 3
    assert f"cannot listen on 127.0.0.1 port {port}" in refused.err
    assert "--port" in refused.err


def test_second_service_on_a_database_is_refused(line: CommandLine, serving: str) -> None:
    refused = line.run("serve", "--port", "0")
    assert refused.code == 4
    assert f"a service already runs on {line.database}: {serving}" in refused.err


@pytest.mark.slow
def test_search_without_a_worker_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    line = CommandLine.fresh(tmp_path_factory)  # no earlier command has left a connected worker in this database
    with line.serving() as url:
        refused = line.run("search", "sdpa", "--url", url)
    assert refused.code == 4
    assert "no connected worker offers a device for sdpa" in refused.err


def test_command_on_a_file_that_is_not_a_database_creates_no_files(tmp_path: Path) -> None:
    line = broken(tmp_path / "home", how="not a database")
    refused = line.run("searches", "--db", str(line.database))
    assert refused.code == 3
    assert [path.name for path in line.home.glob(f"{line.database.name}*")] == [line.database.name]


def create_database(line: CommandLine) -> None:
    """Create an empty database."""
    prepared(line.database)


def broken(home: Path, *, how: str) -> CommandLine:
    """Return a command line whose database cannot be used."""
    home.mkdir()
    line = CommandLine(home=home, cache=home / "cache")
    match how:
        case "not a database":
            line.database.write_text("these are my notes, not a database\n" * 100)
        case "of a newer version":
            create_database(line)
            with sqlite3.connect(line.database) as connection:
                connection.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
            connection.close()
    return line


@pytest.mark.parametrize(
    "arguments",
    [["searches"], ["trials", "1"], ["watch", "1"], ["champion", "show"], ["pause", "1"], ["search", "--resume", "1"]],
    ids=" ".join,
)
def test_read_only_commands_do_not_create_a_missing_database(tmp_path: Path, arguments: list[str]) -> None:
    line = CommandLine(home=tmp_path, cache=tmp_path / "cache")
    mistyped = tmp_path / "a" / "b.db"
    for database in (mistyped, tmp_path / "c.db"):
        refused = line.run(*arguments, "--db", str(database))
        assert refused.code == 2
        assert f"no database at {database}; check --db" in refused.err
    assert {path.suffix for path in tmp_path.iterdir()} <= {"", ".out", ".err"}
    assert not mistyped.parent.exists()


@pytest.mark.parametrize("arguments", [["search", "sdpa"], ["search", "sdpa", "--detach"], ["serve", "--port", "0"]])
def test_database_in_a_missing_folder_is_refused_and_no_folder_is_created(tmp_path: Path, arguments: list[str]) -> None:
    line = CommandLine(home=tmp_path, cache=tmp_path / "cache")
    (tmp_path / "file").write_text("")
    for folder in ("nowhere", "file"):
        refused = line.run(*arguments, "--db", str(tmp_path / folder / "a.db"))
        assert refused.code == 2
        assert f"there is no folder {tmp_path / folder} for the database" in refused.err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("not a database", "is not a kernel-evo database; move the file away, or use another --db"),
        ("of a newer version", "newer"),
    ],
)
def test_error_for_an_unusable_database_states_reason_and_remedy(tmp_path: Path, how: str, said: str) -> None:
    line = broken(tmp_path / "home", how=how)
    refused = line.run("searches")
    assert refused.code == 3
    assert refused.err.startswith("Error: ")
    assert said in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.slow
def test_locked_database_is_reported(tmp_path: Path) -> None:
    line = CommandLine(home=tmp_path, cache=tmp_path / "cache")
    create_database(line)
    code = f"import sqlite3; c = sqlite3.connect({str(line.database)!r}, isolation_level=None)"
    code += "; c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); input()"
    # another process holds the lock, because this process would release it by closing the file anywhere
    holder = [sys.executable, "-c", code]
    with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        refused = line.run("searches")
        process.communicate("\n")
    assert refused.code == 3
    assert "another process has locked it" in refused.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every file")
def test_read_only_database_is_reported(tmp_path: Path) -> None:
    line = CommandLine(home=tmp_path / "home", cache=tmp_path / "cache")
    line.home.mkdir()
    create_database(line)
    line.database.chmod(0o400)
    line.home.chmod(0o500)
    try:
        refused = line.run("searches")
    finally:
        line.home.chmod(0o700)
    assert refused.code == 3
    assert "use another --db" in refused.err


@pytest.mark.slow
def test_search_with_an_unwritable_cache_succeeds_and_reports_the_cache_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache folder is a file, so caching is impossible."""
    # without a cache, each command measures the peak rates of the CPU
    monkeypatch.setattr("workers.backends.cpu.support._BURSTS_S", 0.0)
    (tmp_path / "cache").write_text("")
    line = CommandLine(home=tmp_path, cache=tmp_path / "cache")
    with line.working():
        ended = line.run("search", str(recording(tmp_path / "bowl.json", side=3)), "--trials", "4")
    assert ended.code == 0
    assert ended.out.count("cannot be written (Not a directory): no result is lost") == 1
    findings = line.run("doctor", "--json").json["findings"]
    assert [each["found"] for each in findings if each["what"] in ("cache", "database")] == [False, True]


def test_doctor_reports_two_workers_that_offer_one_device(tmp_path: Path) -> None:
    database = tmp_path / "evo.db"
    device = TypeAdapter(type(DEVICE)).dump_python(DEVICE, mode="json")
    with announcing(database) as url, client_of(url) as client:

        def findings_after_registration_of(worker: str) -> list[doctor.Finding]:
            body = {"name": f"name of {worker}", "host": "here", "devices": [device]}
            client.put(f"/workers/{worker}", json=body).raise_for_status()
            return sorted(doctor._workers(LocalDatabase.of(database)), key=lambda each: each.what)

        assert findings_after_registration_of("w1") == []
        both = findings_after_registration_of("w2")
    for finding, own, other in zip(both, ("w1", "w2"), ("w2", "w1"), strict=True):
        assert (finding.what, finding.found) == (f"worker name of {own}", False)
        assert finding.needed_for == "undisturbed measurements"
        offered = f"{own}: Toy CPU (cpu-0) is also offered by worker name of {other} on here (id {other}): "
        assert finding.detail.startswith(offered)


@pytest.mark.slow
def test_doctor_lists_missing_tools_and_how_to_install_them(line: CommandLine) -> None:
    found = line.run("doctor", "--json")
    assert found.code == 0
    assert found.json["devices"][0]["kind"] == "cpu"
    compiler = next(each for each in found.json["findings"] if each["what"] == "C compiler")
    assert compiler["found"]
    bare = CommandLine(home=line.home, cache=line.home / "empty", environment={"PATH": "/nonexistent", "CC": ""})
    missing = bare.run_apart("doctor")  # this process has cached the compiler that it found
    assert missing.code == 1
    assert "No device found to search on." in missing.out
    assert "cpu-compiler" in " ".join(missing.out.split())

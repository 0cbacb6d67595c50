"""Deployment files pass their schemas and linters, because no container engine runs in tests."""

import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from api.scheduler.active import utc_now
from api.settings import Settings
from db.engine.session import Database
from db.repositories.tokens import Tokens
from evo.cli.main import app
from tests.integration.serving import served

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "guides" / "deploy"
SCRIPTS = sorted(DEPLOY.glob("*.sh"))
BIN = Path(sysconfig.get_path("scripts"))
COMMAND = re.compile(r"(?:^|(?<=\s)|(?<=bin/))kernel-evo\"? (?=[a-z])")

PIP_AT_HAND = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_COMPILE": "1"}
"""Settings of pip to use the packages and the build backend of this environment (0 disables build isolation)."""

QUICK = """#!/bin/sh
[ "$2" = venv ] || exec {python} "$@"
{python} -m venv --without-pip "$3"
printf '#!/bin/sh\\nexec {python} -m pip --python %s "$@"\\n' "$3/bin/python" >"$3/bin/pip"
chmod +x "$3/bin/pip"
"""


def run(*command: object, folder: Path = ROOT, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


# Docker


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """Return the Compose file with its anchors resolved."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return document


def stages() -> dict[str, list[str]]:
    """Return the instructions of the Dockerfile, by stage."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("FROM "):
            found[line.split(" AS ")[1]] = [line]
        elif line and not line.startswith("#"):
            next(reversed(found.values())).append(line)
    return found


def test_container_health_check_ignores_proxy_variables(tmp_path: Path) -> None:
    check = next(line for line in stages()["service"] if line.startswith("HEALTHCHECK"))
    command = json.loads(check[check.index("CMD ") + 4 :])
    elsewhere = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:9")
    with served(tmp_path / "evo.db") as url:
        port = url.rpartition(":")[2]
        checked = run(sys.executable, *(word.replace("8765", port) for word in command[1:]), folder=ROOT, **elsewhere)
    assert checked.returncode == 0, checked.stderr
    assert run(sys.executable, *(word.replace("8765", port) for word in command[1:])).returncode != 0


def test_compose_file_matches_the_published_schema() -> None:
    checked = run(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_files_named_in_the_compose_file_exist(compose: Mapping[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        assert set(service["networks"]) <= set(compose["networks"]), name
        assert {each["source"] for each in service.get("configs", ())} <= set(compose["configs"]), name
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in compose["volumes"], name
        if "build" in service:
            assert service["build"]["target"] in stages(), name
    for config in compose["configs"].values():
        assert (ROOT / config["file"]).is_file()


def test_only_the_gpu_worker_needs_a_compose_profile(compose: Mapping[str, Any]) -> None:
    asleep = {name for name, service in compose["services"].items() if service.get("profiles")}
    assert asleep == {"worker-cuda"}
    wanted = {before for service in compose["services"].values() for before in service.get("depends_on", {})}
    assert not wanted & asleep
    (device,) = compose["services"]["worker-cuda"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]


def test_only_the_proxy_is_reachable_from_outside(compose: Mapping[str, Any]) -> None:
    assert {name for name, service in compose["services"].items() if "ports" in service} == {"proxy"}
    assert {name for name, each in compose["networks"].items() if not (each or {}).get("internal")} == {"outside"}
    on: dict[str, set[str]] = {}
    for name, service in compose["services"].items():
        for network in service["networks"]:
            on.setdefault(network, set()).add(name)
    assert on["outside"] == {"proxy"}
    assert on["webhooks"] == {"service"}
    assert compose["networks"]["webhooks"]["internal"] == "${WEBHOOKS_INTERNAL:-true}", (
        "by default, webhooks must not reach the internet"
    )
    assert on["front"] == {"proxy", "service"}  # the only network whose proxies are trusted
    assert on["workers"] == {"service", "worker-cpu", "worker-cuda"}
    (front,) = compose["networks"]["front"]["ipam"]["config"]
    assert compose["services"]["service"]["environment"]["KERNEL_EVO_TRUSTED_PROXIES"] == front["subnet"]


def test_compose_workers_do_not_share_their_token_volumes(compose: Mapping[str, Any]) -> None:
    seen = {
        name: {volume.split(":")[0] for volume in compose["services"][name]["volumes"]}
        for name in ("worker-cpu", "worker-cuda")
    }
    assert not seen["worker-cpu"] & seen["worker-cuda"]
    assert all(f"{name}-token" in volumes for name, volumes in seen.items())


def test_every_setting_in_compose_file_and_images_exists(
    compose: Mapping[str, Any],
) -> None:
    known = {f"KERNEL_EVO_{name.upper()}" for name in Settings.model_fields} | set(options("worker")[1])
    proxy = (DEPLOY / "Caddyfile").read_text()
    for name, service in compose["services"].items():
        for variable in service.get("environment", {}):
            if variable.startswith("KERNEL_EVO_"):
                assert variable in known or (name == "proxy" and f"{{${variable}:" in proxy), variable
    for line in (line for stage in stages().values() for line in stage if line.startswith("ENV ")):
        assert set(re.findall(r"\b(KERNEL_EVO_\w+)=", line)) <= known
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert asked == set(re.findall(r"^(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))


@pytest.mark.skipif(not (BIN / "hadolint").exists(), reason="hadolint has no wheel for this system")
def test_dockerfile_passes_the_linter() -> None:
    linted = run(BIN / "hadolint", "--no-color", "Dockerfile")
    assert (linted.returncode, linted.stdout) == (0, "")


def test_images_run_without_root_and_only_one_image_has_a_compiler() -> None:
    final = {name: stages()[name] for name in ("service", "worker-cpu", "worker-cuda")}
    for name, lines in final.items():
        assert [line for line in lines if line.startswith("USER ")][-1] == "USER 10001", name
        assert lines[0].startswith("FROM base "), name
    assert {name for name, lines in final.items() if any("gcc" in line for line in lines)} == {"worker-cpu"}


@pytest.mark.long
def test_dockerfile_build_steps_install_kernel_evo_in_an_empty_folder(tmp_path: Path) -> None:
    """The steps are unchanged except for local paths and a local source of packages."""
    source, target = tmp_path / "src", tmp_path / "opt"
    (source).mkdir()
    for line in stages()["build"]:
        if line.startswith("COPY "):
            _copy(line.split()[1:], source)
    (step,) = [line.removeprefix("RUN ") for line in stages()["build"] if line.startswith("RUN ")]
    step = step.replace("/opt/kernel-evo", str(target)).replace("python -m venv", f"{quick_python(tmp_path)} -m venv")
    site = sysconfig.get_path("purelib")
    built = run("sh", "-c", step, folder=source, PYTHONPATH=site, **PIP_AT_HAND)
    assert built.returncode == 0, built.stdout + built.stderr
    check = "import sys, templates; sys.exit(not templates.__path__[0].startswith(sys.prefix))"
    assert run(target / "bin" / "python", "-c", check, folder=tmp_path, PYTHONPATH=site).returncode == 0
    listed = run(target / "bin" / "kernel-evo", "families", folder=tmp_path, PYTHONPATH=site)
    assert (listed.returncode, "sdpa" in listed.stdout) == (0, True), listed.stderr


def quick_python(folder: Path) -> Path:
    """Return a Python whose virtual environments reuse the pip of this environment, because installing pip is slow."""
    python = folder / "quick" / "python3.13"
    python.parent.mkdir()
    python.write_text(QUICK.format(python=sys.executable))
    python.chmod(0o755)
    return python


def _copy(words: list[str], target: Path) -> None:
    """Copy files as COPY in a Dockerfile does, without the files that .dockerignore excludes."""
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    *names, to = words
    for name in names:
        assert name in allowed, f".dockerignore excludes {name}"
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / to)


def test_caddy_accepts_its_configuration(tmp_path: Path) -> None:
    if (caddy := shutil.which("caddy")) is None:
        pytest.skip("caddy is not installed; `apt install caddy` enables the check of its configuration")
    checked = run(caddy, "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile", HOME=str(tmp_path))
    assert checked.returncode == 0, checked.stderr


# Scripts, units and the commands of the guides


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_deployment_scripts_pass_shellcheck(script: Path) -> None:
    assert script.stat().st_mode & stat.S_IXUSR
    linted = run(BIN / "shellcheck", script)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_systemd_units_are_valid(tmp_path: Path) -> None:
    if (analyse := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    units = []
    for unit in DEPLOY.glob("*.service"):
        units.append(tmp_path / unit.name)
        units[-1].write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", unit.read_text()))
    checked = run(analyse, "verify", *units)
    # systemd-analyze also reports faults of other units
    assert not [line for line in checked.stderr.splitlines() if "kernel-evo" in line]


ONE = re.compile(r"""(?:"[^"]*"|'[^']*'|(?!\s#)[^|;&>)])*""")
"""Matches a shell command up to an operator or a comment."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every ``kernel-evo`` command line of the deployment files and guides."""
    texts = {path.name: path.read_text() for path in (*SCRIPTS, *DEPLOY.glob("*.service"))}
    for path in (ROOT / "docs" / "guides").rglob("*.md"):
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), re.DOTALL | re.MULTILINE)
        texts[path.name] = "\n".join(block for language, block in blocks if language in ("", "sh"))
    for name, text in texts.items():
        for line in text.replace("\\\n", " ").splitlines():
            if not line.lstrip().startswith(("#", "Description", ":", "echo")):
                for command in COMMAND.split(line)[1:]:
                    yield name, shlex.split(one.group() if (one := ONE.match(command)) else "")
    for name, lines in stages().items():
        for line in lines:
            if line.startswith("CMD ["):
                yield name, json.loads(line.removeprefix("CMD "))


def options(*words: str) -> tuple[list[str], list[str]]:
    """Return the options of a command, and the variables that set them."""
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    return (
        [option for each in command.params for option in (*each.opts, *each.secondary_opts)],
        [each.envvar for each in command.params if getattr(each, "envvar", None)],
    )


@pytest.mark.slow
def test_every_command_in_deployment_files_and_guides_exists_with_its_options() -> None:
    found = list(commands())
    assert len(found) > 25
    group: Any = get_command(app)
    for where, words in found:
        assert words[0] in group.commands, f"{where}: kernel-evo {shlex.join(words)}"
        path = [words[0]]
        if hasattr(group.commands[words[0]], "commands") and words[1:2] and not words[1].startswith("-"):
            path.append(words[1])
        known = options(*path)[0]
        for word in words:
            if word.startswith("--"):
                assert word in known, f"{where}: kernel-evo {shlex.join(words)}"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.long
def test_setup_script_creates_the_first_tokens_and_replaces_lost_tokens(tmp_path: Path) -> None:
    environment = {
        "KERNEL_EVO_DB": str(tmp_path / "evo.db"),
        "ADMIN_TOKEN_FILE": str(tmp_path / "admin"),
        "WORKER_TOKENS": str(tmp_path),
        "SETUP_PORT": free_port(),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    said = run("sh", DEPLOY / "setup.sh", folder=ROOT, **environment)
    assert said.returncode == 0, said.stderr
    tokens = {name: (tmp_path / name).read_text() for name in ("admin", "cpu/token", "cuda/token")}
    assert len(set(tokens.values())) == 3
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in tokens} == {0o600}
    # After a restore into another installation, one folder is empty, and another folder has an unknown token.
    (tmp_path / "admin").unlink()
    (tmp_path / "cpu" / "token").write_text(tokens["cpu/token"].replace("kev_", "kev_x", 1))
    restored = run("sh", DEPLOY / "setup.sh", folder=ROOT, **environment)
    assert (restored.returncode, restored.stdout.count("made")) == (0, 2), restored.stderr
    assert (tmp_path / "cuda" / "token").read_text() == tokens["cuda/token"]
    assert not list(tmp_path.rglob("*.new"))
    database = Database.open(tmp_path / "evo.db")
    with database.read() as session:
        valid = {name: Tokens(session).holder(secret.strip(), utc_now()) for name, secret in tokens.items()}
        admin = Tokens(session).holder((tmp_path / "admin").read_text().strip(), utc_now())
    database.close()
    assert [name for name, row in valid.items() if row is None] == ["cpu/token"], (
        "the lost token must not block other tokens"
    )
    assert admin is not None
    assert admin.roles == ["admin"]


@pytest.mark.long
def test_vm_start_script_installs_a_worker_and_powers_off_when_no_work_is_left(tmp_path: Path) -> None:
    python, off = quick_python(tmp_path), tmp_path / "off"
    with served(tmp_path / "evo.db") as url:
        ran = run(
            *("bash", DEPLOY / "start-worker-vm.sh"),
            folder=tmp_path,
            PATH=f"{python.parent}:/usr/bin:/bin",
            PYTHONPATH=sysconfig.get_path("purelib"),
            **PIP_AT_HAND,
            KERNEL_EVO_URL=url,
            SOURCE=ROOT.as_uri(),
            HOME_FOLDER=str(tmp_path / "home"),
            STATE=str(tmp_path / "state"),
            IDLE_MINUTES="0",
            SWITCH_OFF=f"touch {off}",
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert off.exists()
    assert "there was no work" in ran.stdout + ran.stderr


def test_backup_command_of_the_guide_copies_a_database_in_use(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "deploy" / "backup.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("python -c") and "VACUUM" in line]
    database = Database.open(tmp_path / "kernel-evo.db")
    with database.write():
        copied = run("sh", "-c", line.replace("python", sys.executable, 1), folder=tmp_path)
    database.close()
    assert copied.returncode == 0, copied.stderr
    with sqlite3.connect(tmp_path / "backup.db") as backup:
        assert backup.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    backup.close()
    Database.open(tmp_path / "backup.db").close()

"""Once a local database has a token, every caller except its owner needs a token."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evo.cli.exits import Exit
from evo.cli.main import main
from tests.integration.commands import CommandLine, recording
from tests.integration.serving import announced, process_of


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in this process."""
    monkeypatch.delenv("KERNEL_EVO_URL", raising=False)
    monkeypatch.delenv("KERNEL_EVO_TOKEN", raising=False)

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        return code, *capsys.readouterr()

    return command


@pytest.mark.slow
def test_requests_need_a_token_or_the_local_key_once_a_token_exists(
    tmp_path_factory: pytest.TempPathFactory, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = CommandLine.fresh(tmp_path_factory)
    local = ("--db", str(line.database))
    with process_of(line.database):
        url = announced(line.database)
        code, out, _ = run("token", "create", "ana", "--role", "viewer", "--days", "30", "--json", *local)
        made = json.loads(out)
        assert (code, made["token"]["roles"]) == (Exit.DONE, ["viewer"])
        code, _, err = run("searches", "--url", url)
        assert (code, "requires a token" in err) == (Exit.UNAVAILABLE, True)
        assert run("searches", "--url", url, "--token", made["secret"])[0] == Exit.DONE
        code, _, err = run("token", "list", "--url", url, "--token", made["secret"])
        assert (code, "role admin" in err) == (Exit.UNAVAILABLE, True)
        code, out, _ = run("token", "join", "spot", *local)
        assert (code, "kej_" in out) == (Exit.DONE, True)
        code, out, _ = run("token", "rotate", made["token"]["id"], "--grace", "5", "--json", *local)
        renewed = json.loads(out)
        searched = line.run("search", str(recording(line.home / "bowl.json")), "--trials", "3", "--json")
        assert (searched.code, searched.json["finished"]) == (Exit.DONE, 3), searched.err
        assert run("token", "revoke", renewed["token"]["id"], *local)[1].strip().endswith("is revoked.")
        monkeypatch.setenv("COLUMNS", "200")
        out = run("token", "list", *local)[1]
        assert ("ana" in out, "revoked" in out, "one worker may join" in out) == (True, True, True)
        assert made["secret"] not in out
        assert renewed["secret"] not in out


def test_error_for_an_unknown_role_suggests_a_valid_role(run: Callable[..., Any], tmp_path: Path) -> None:
    code, _, err = run("token", "create", "bo", "--role", "vewer", "--db", str(tmp_path / "evo.db"))
    assert (code, "viewer" in err) == (Exit.WRONG_INPUT, True)

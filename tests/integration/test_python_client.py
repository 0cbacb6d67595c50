"""The documented example of the Python client runs unchanged, on a service with a fake worker."""

import re
import threading
from pathlib import Path

import pytest

from evo.client import Client
from evo.errors import Conflict
from tests.integration.local import local
from tests.integration.serving import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "python-client.md"


def test_documented_python_example_runs_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ended = threading.Event()
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()

        def work() -> None:
            """Act as a worker once the example listens for events, because it does not receive earlier events."""
            wait_until(lambda: rest.service.feed._listeners or ended.is_set())
            while not ended.is_set():
                for lease in rest.claim(wait_s=0.2):
                    rest.report(lease)

        working = threading.Thread(target=work)
        working.start()
        try:
            url = str(rest.http.base_url).removesuffix("/api/v1/")
            monkeypatch.setenv("KERNEL_EVO_URL", url)
            exec(compile(example.replace('"softmax"', '"toy"'), PAGE.name, "exec"), {})
        finally:
            ended.set()
            working.join()
        said = capsys.readouterr().out
        assert said.count("trial ") == 13
        assert re.search(r"search 1 finished: trial \d+ takes \d+\.\d+ µs", said)
        with Client(url) as client:
            assert client.searches(text="PYTHON", sort="oldest").items[0].id == 1
            assert client.edit_search(1, archived=True).archived
            assert client.champions(history=True).items[0].current
            with pytest.raises(Conflict, match="champion"):
                client.delete_search(1)
            assert client.rollback(1, reason="a try").retired_reason == "rolled back: a try"
            assert client.promote(1, over=None, reason="after all").current

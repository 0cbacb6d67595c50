"""An interrupted recording continues in the same order."""

import json
from pathlib import Path

import pytest

from tests.bench.recorded.__main__ import main

SPACES = """
[[spaces]]
name = "tiny"
family = "softmax"
problem = "rows=32,cols=64"
[spaces.tunables]
WIDTH = [4, 8]
UNROLL = [1, 2]
"""


@pytest.mark.long
def test_interrupted_recording_is_completed_without_repeated_measurements(tmp_path: Path) -> None:
    (tmp_path / "spaces.toml").write_text(SPACES)
    arguments = ["--to", str(tmp_path), "--definitions", str(tmp_path / "spaces.toml"), "--device", "cpu"]
    arguments += ["--cache", str(tmp_path / "cache"), "--jobs", "1", "--minutes"]
    assert main([*arguments, "0"]) == 0
    path = tmp_path / "tiny.jsonl"
    assert len(path.read_text().splitlines()) == 1
    assert main([*arguments, "1"]) == 0
    whole = path.read_text().splitlines()
    header = json.loads(whole[0])
    assert header["valid_configs"] == len(whole) - 1 == 4
    assert all(json.loads(line)["outcome"]["kind"] == "measured" for line in whole[1:])
    path.write_text("\n".join(whole[:3]) + "\n")
    assert main([*arguments, "1"]) == 0
    again = path.read_text().splitlines()
    assert again[:3] == whole[:3]
    assert [json.loads(line)["config"] for line in again[1:]] == [json.loads(line)["config"] for line in whole[1:]]

"""Cheating kernels that are submitted as variants are refused, and correct kernels are accepted."""

import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from evo.cli.main import main
from evo.messages.view import VariantView
from evo.text.document import toml_text
from templates.registry import find
from tests.integration.cheats import CHEATS, HONEST, source
from tests.integration.serving import served, wait_until
from tests.integration.test_cheats import NEEDS_CORES
from tests.integration.test_worker import Bench

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64",
        reason="the test needs Linux on x86-64",
    ),
]

FAMILY = """
name = "line"
title = "y = 3 x + 1"
description = "y = 3 x + 1 on vectors of 1,000 floats."

[problem.count]
type = "int"
default = 1000
min = 1000
max = 1000

[[arguments]]
name = "x"
role = "input"
shape = ["count"]
dtype = "float32"

[[arguments]]
name = "y"
role = "output"
shape = ["count"]
dtype = "float32"
rel_l2 = 1e-6
max_abs_ratio = 4.0

[work]
flops = "2 * count"
bytes = "8 * count"
dtype = "float32"

[[cases]]
name = "nominal"
inputs = "normal"

[[cases]]
name = "large"
inputs = "large"

[cpu]
source = "kernel.c"
entry = "f"
flags = ["-pthread", "-w"]

[cpu.tunables]
TURNS = [30000]
"""

REFERENCE = """
import numpy as np


def inputs(problem, distribution, rng):
    scale = {"normal": 1.0, "large": 40.0}[distribution]
    return {"x": (scale * rng.standard_normal(problem["count"])).astype(np.float32)}


def reference(problem, inputs):
    return {"y": 3.0 * inputs["x"].astype(np.float64) + 1.0}


def yardstick(problem, inputs):
    return {"y": np.float32(3.0) * inputs["x"] + np.float32(1.0)}


def baselines(problem):
    return {"numpy": lambda inputs: lambda: 3.0 * inputs["x"] + 1.0}
"""

CLOCK = """
#include <link.h>
static long hidden;
static int fake(clockid_t id, struct timespec *t) {
  int status = clock_gettime(id, t);
  long now = t->tv_sec * 1000000000l + t->tv_nsec - hidden;
  t->tv_sec = now / 1000000000l; t->tv_nsec = now % 1000000000l;
  return status;
}
static int patch(struct dl_phdr_info *object, size_t size, void *data) {
  if (object->dlpi_name && strstr(object->dlpi_name, "kernel")) return 0;
  for (int p = 0; p < object->dlpi_phnum; p++) if (object->dlpi_phdr[p].p_type == PT_DYNAMIC) {
    ElfW(Sym) *symbols = 0; char *names = 0; ElfW(Rela) *found[2] = {0}; size_t sizes[2] = {0};
    for (ElfW(Dyn) *d = (void *)(object->dlpi_addr + object->dlpi_phdr[p].p_vaddr); d->d_tag; d++) {
      if (d->d_tag == DT_SYMTAB) symbols = (void *)d->d_un.d_ptr;
      if (d->d_tag == DT_STRTAB) names = (void *)d->d_un.d_ptr;
      if (d->d_tag == DT_JMPREL) found[0] = (void *)d->d_un.d_ptr;
      if (d->d_tag == DT_RELA) found[1] = (void *)d->d_un.d_ptr;
      if (d->d_tag == DT_PLTRELSZ) sizes[0] = d->d_un.d_val;
      if (d->d_tag == DT_RELASZ) sizes[1] = d->d_un.d_val;
    }
    if ((uintptr_t)symbols < 65536 || (uintptr_t)names < 65536) continue;
    for (int k = 0; k < 2; k++) for (size_t i = 0; found[k] && i < sizes[k] / sizeof *found[k]; i++) {
      unsigned symbol = ELF64_R_SYM(found[k][i].r_info);
      if (!symbol || strcmp(names + symbols[symbol].st_name, "clock_gettime")) continue;
      void **at = (void **)(object->dlpi_addr + found[k][i].r_offset);
      ask(SYS_mprotect, (long)at & ~4095l, 4096, PROT_READ | PROT_WRITE);
      *at = (void *)fake;
    }
  }
  return 0;
}
"""

TRICKS: dict[str, tuple[str, str]] = {
    "replaces the clock of its process": (
        f"{CLOCK}\nvoid f(const float *x, float *y) {{ static int done; if (!done++) dl_iterate_phdr(patch, 0);"
        "right(x, y); hidden += 100; }",
        "clock|processor time|contradict|functions",
    ),
    "takes a shortcut for inputs that look normal": (
        "void f(const float *x, float *y) { float top = 0; for (int i = 0; i < N; i += 8)"
        " top = fabsf(x[i]) > top ? fabsf(x[i]) : top;"
        " for (int i = 0; i < N; i++) y[i] = 3.0f * (top < 8 && x[i] > 8 ? 8 : x[i]) + 1.0f; }",
        "differs from the reference",
    ),
    "caches sixty-four answers by a checksum of all inputs": (
        "static __thread float answers[64][N]; static __thread uint64_t sums[64]; static __thread int made;"
        "void f(const float *x, float *y) { uint64_t sum = 7;"
        " for (int i = 0; i < N; i += 2) { uint64_t b; memcpy(&b, x + i, 8);"
        " sum = (sum ^ b) * 0x9e3779b97f4a7c15ul; }"
        " for (int k = 0; k < 64; k++) if (sums[k] == sum) { memcpy(y, answers[k], 4 * N); return; }"
        " right(x, y); spend(20000); memcpy(answers[made], y, 4 * N); sums[made] = sum; made = (made + 1) % 64; }",
        "repeat|same|new inputs|inputs change",
    ),
}
"""Tricks in addition to `CHEATS`, by name: source after the common head, and part of the reason for the refusal."""

KNOWN = (
    "answer cached by input pointer after 64 calls",
    "correct only on one core",
    "part of the work skipped if outputs are not poisoned",
    "forges the reply of its process",
    "correct only for page-aligned inputs",
    "reads one element beyond its input",
    "leaks",
    "leaves a changed rounding mode",
)
"""Tricks that every test run submits as variants. Tests marked `long` submit all other tricks."""

BY_COMMAND = "leaves a part of its output unwritten"
"""The trick that only the test of the command submits, because the same files cannot be submitted twice."""

RACES = (
    "a race on a single element",
    "a race on a single element in every second call",
    "a race in every fourth call",
)
"""Omitted tricks. On a busy machine, the single process of this policy may miss a short race. The kernel would then
become champion, and slower cheats would not be confirmed.
"""

OTHERS = [name for name in CHEATS if name not in (*KNOWN, *RACES, BY_COMMAND)]
PARTS = 8
"""Number of tests among which the remaining tricks are divided. Each test has its own time limit."""

SLOW = (
    "uint32_t number = count; for (int i = 0; i < TURNS; i++) number = number * 1664525u + 1013904223u;"
    " right(x, y); if (number == 7) y[0] += 1;"
)
"""Body of a slow kernel: a chain of multiplications. Its time is equal in all processes, unlike that of a counter in
memory. This matters, because no challenger is promoted if the incumbent is twice as slow as in its own confirmation.
"""
TABLE = {"entry": "f", "tunables": {"TURNS": [1]}}
POLICY = {"quick_samples": 10, "confirm_samples": 10, "confirm_processes": 1, "seeds": 2}


def text_of(name: str) -> str:
    """Return the source of a cheating or correct kernel as a variant of the family ``line``."""
    if name in TRICKS:
        text = source("", "").rpartition("void f(")[0] + TRICKS[name][0]
    else:
        text = source(name, CHEATS[name][0] if name in CHEATS else HONEST[name])
    return f"{text}\nint turns = TURNS + count;\n"


class Lab:
    """A search of a slow kernel on this machine's CPU, to which all variants of these tests are submitted."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.client, self.url, self.folder = bench.client, bench.url, folder
        place = folder / "line"
        place.mkdir()
        for name, text in {"family.toml": FAMILY, "reference.py": REFERENCE, "kernel.c": source("plain", SLOW)}.items():
            (place / name).write_text(text)
        self.search = bench.search(find(str(place)), policy=POLICY)
        bench.ended(self.search)
        self.submitted: dict[str, VariantView] = {}

    def submit(self, names: Iterable[str]) -> None:
        """Submit all variants together, so that some are compiled while another is measured."""
        for name in names:
            files = {"kernel.c": text_of(name)}
            self.submitted[name] = self.client.submit_variant(self.search.id, files, document=TABLE)

    def ended(self, name: str) -> VariantView:
        view = self.submitted[name]

        def now() -> VariantView:
            return self.client.variant(view.search_id, view.number)

        wait_until(lambda: now().ended)
        return now()

    def refusal(self, name: str) -> str:
        """Return the reason why evaluation or confirmation refused a variant; empty if it was not refused."""
        view = self.ended(name)
        if view.best is None:
            return "\n".join(each.detail for each in view.failures)
        challenges = self.client.search(view.tuning_id).challenges
        return "\n".join(each.verdict.summary for each in challenges if not each.verdict.promote)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield a lab to which `TRICKS` and the tricks of `KNOWN` are submitted."""
    folder = tmp_path_factory.mktemp("lab")
    with served(folder / "evo.db") as url:
        bench = Bench(url, folder, tmp_path_factory.getbasetemp() / "cache")
        try:
            with bench.working():
                made = Lab(bench, folder)
                made.submit([*TRICKS, *KNOWN])
                yield made
        finally:
            bench.client.close()


def expected(words: str) -> str:
    if words in NEEDS_CORES and (os.cpu_count() or 1) < 2:
        pytest.skip("one core")
    return f"{NEEDS_CORES.get(words, words)}|called by two threads concurrently"


@pytest.mark.parametrize("trick", [*TRICKS, *KNOWN])
def test_cheating_variant_is_refused(lab: Lab, trick: str) -> None:
    words = (TRICKS | CHEATS)[trick][1]
    refusal = lab.refusal(trick)
    assert re.search(expected(words), refusal)
    assert "family.toml" not in refusal, "a variant cannot change the contract"


def test_cheating_variant_submitted_by_command_is_refused_with_the_reason(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel.c").write_text(text_of(BY_COMMAND))
    (tmp_path / "variant.toml").write_text(toml_text({"name": "lazy", **TABLE}))
    command = ["variant", "submit", str(tmp_path), "--search", str(lab.search.id), "--url", lab.url]
    assert main([*command, "--wait"]) == 0
    assert "never written" in capsys.readouterr().out


@pytest.mark.parametrize("part", range(PARTS))
def test_cheating_kernels_submitted_together_are_refused_as_variants(lab: Lab, part: int) -> None:
    """The test runs before a correct variant is champion, because slower cheats would not be confirmed afterwards."""
    names = OTHERS[part::PARTS]
    lab.submit(names)
    measured = [name for name in names if not lab.refusal(name)]
    assert measured == []


def test_correct_variant_submitted_by_command_becomes_champion(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel.c").write_text(text_of("plain"))
    (tmp_path / "variant.toml").write_text(toml_text({"name": "honest", **TABLE}))
    assert main(["variant", "submit", str(tmp_path), "--search", str(lab.search.id), "--url", lab.url, "--json"]) == 0
    lab.submitted["honest"] = lab.client.variant(lab.search.id, json.loads(capsys.readouterr().out)["number"])
    view = lab.ended("honest")
    assert view.champion, lab.refusal("honest")
    assert view.ratio is not None
    assert view.ratio < 0.5


def test_correct_kernels_are_measured_as_variants(lab: Lab) -> None:
    names = [name for name in HONEST if name != "plain"]
    lab.submit(names)
    ended = {name: lab.ended(name) for name in names}
    assert {name: view.failures for name, view in ended.items() if view.best is None} == {}

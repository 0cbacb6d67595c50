"""Templates of variants are rendered in a separate process, with limited time and memory."""

import sys

import psutil
import pytest

from evo.errors import RenderError
from templates.render import render
from tests.unit.test_variant_builds import family
from workers.build.rendering import Renderer
from workers.system import line_process

ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
LARGE = {
    "product": "{{ 'a' * 9000000000 }}",
    "doubling": "{% set n = namespace(s='ab') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "padding": "{{ '%09999999999d' % 1 }}",
}


def rendered(renderer: Renderer, text: str) -> str:
    return renderer.render(family({"kernel.c.j2": text}), "cpu", {"WIDTH": 1}, {"N": 8}, {})


@pytest.mark.slow
def test_variant_template_renders_like_a_family_template_but_without_file_access() -> None:
    renderer, text = Renderer(), "int w = {{ WIDTH }}; /* snow ☃ */ int n = {{ N }};\n"
    package = family({"kernel.c.j2": text})
    plain = render(package, "cpu", {"WIDTH": 1}, {"N": 8}, {})
    assert [rendered(renderer, text) for _ in range(2)] == [plain, plain]
    with pytest.raises(RenderError, match=r"variant/kernel\.c\.j2:1"):
        rendered(renderer, "{{ ''.__class__ }}")
    with pytest.raises(RenderError, match="the included file"):
        rendered(renderer, "{% include '/etc/passwd' %}")


@pytest.mark.slow
def test_endless_template_is_stopped_at_the_time_limit() -> None:
    renderer = Renderer(longest_s=3.0)
    with pytest.raises(RenderError, match="takes more than 3 s"):
        rendered(renderer, ENDLESS)
    assert rendered(renderer, "{{ WIDTH }}") == "1"


@pytest.mark.slow
def test_start_of_the_rendering_process_does_not_count_as_rendering_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (
        "import time; input(); time.sleep(6); print('{}', flush=True); input(); print('{\"text\": \"1\"}', flush=True)"
    )
    monkeypatch.setattr(line_process, "_command", lambda _: (sys.executable, "-c", slow))
    assert rendered(Renderer(longest_s=5.0), "{{ WIDTH }}") == "1"


def test_rendering_process_that_does_not_start_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_process, "_command", lambda _: (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr("workers.build.rendering.START_S", 0.2)
    with pytest.raises(RenderError, match=r"the rendering process ended: it did not start within 0\.2 s"):
        rendered(Renderer(), "{{ WIDTH }}")


@pytest.mark.slow
@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_template_beyond_the_memory_limit_is_refused(text: str) -> None:
    before = psutil.Process().memory_info().rss
    with pytest.raises(RenderError, match=r"memory|more than"):
        rendered(Renderer(), text + "{{ WIDTH }}")
    assert psutil.Process().memory_info().rss - before < 1 << 30

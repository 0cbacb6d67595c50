"""Both common formats of recorded spaces are read into outcomes, costs and a family document."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from evo.errors import InvalidInput, NotFound
from evo.family import Family
from evo.family.scope import WORD
from evo.space import Space, Tunable
from evo.space.recording import (
    Costs,
    Entry,
    Recording,
    cache_document,
    config_key,
    fastest,
    parse_recording,
    recording_name,
    results_document,
)
from evo.trial.outcome import (
    CompileFailed,
    Crashed,
    Impossible,
    InvalidConfig,
    LaunchFailed,
    Measured,
    Outcome,
    OverResources,
    Pruned,
    TimedOut,
    WrongAnswer,
)
from evo.trial.timing import Timing
from tests.data import synthetic

Document = dict[str, Any]


def cache(**changes: Any) -> Document:
    costs = {"compile_time": 200.0, "verification_time": 30.0, "benchmark_time": 70.0}
    document: Document = {
        "device_name": "Imaginary 100",
        "tune_params_keys": ["block", "layout"],
        "tune_params": {"layout": ["row", "col"], "block": [16, 32]},
        "cache": {
            "16,row": {"block": 16, "layout": "row", "time": 0.5, **costs},
            "32,row": {"block": 32, "layout": "row", "time": "CompilationFailedConfig", **costs},
            "16,col": {"block": 16, "layout": "col", "time": "RuntimeFailedConfig", **costs},
            "32,col": {"block": 32, "layout": "col", "time": 2.0, "__error__": "InvalidConfig"},
        },
    }
    return document | changes


def t4(*results: Document, **metadata: Any) -> Document:
    return {"schema_version": "1.0.0", "metadata": metadata, "results": list(results)}


def result(value: float = 0.25, unit: str = "ms", invalidity: str = "correct", **configuration: Any) -> Document:
    return {
        "configuration": configuration,
        "times": {"compilation_time": 1500.0, "validation": 20.0, "runtimes": [3.0, 4.0]},
        "invalidity": invalidity,
        "correctness": 1,
        "measurements": [{"name": "power", "value": 3}, {"name": "time", "value": value, "unit": unit}],
        "objectives": ["time"],
    }


def parse(document: Document) -> Recording:
    return parse_recording(json.dumps(document), "tiny")


def test_cache_file_gives_every_config_its_outcome_and_costs() -> None:
    recording = parse(cache())
    assert list(recording.entries) == ["16,row", "32,row", "16,col", "32,col"]
    measured = recording.outcome("16,row")
    assert isinstance(measured, Measured)
    assert measured.timing.median_us == pytest.approx(500.0)
    kinds = [type(recording.outcome(key)) for key in ("32,row", "16,col", "32,col")]
    assert kinds == [CompileFailed, LaunchFailed, InvalidConfig]
    costs = recording.costs("32,row")
    assert (costs.compile_s, costs.verify_s, costs.benchmark_s) == pytest.approx((0.2, 0.03, 0.07))
    assert costs.total_s == pytest.approx(0.3)
    assert recording.device == "Imaginary 100"
    assert recording.optimum_us == pytest.approx(500.0)


def test_family_document_of_a_recording_has_exactly_its_configs() -> None:
    recording = parse(cache())
    document = recording.document()
    assert document["name"] == "tiny"
    assert document["recording"] is True
    assert document["replay"]["tunables"] == {"block": {"values": [16, 32]}, "layout": {"values": ["row", "col"]}}
    tunables = [Tunable(name=name, values=values) for name, values in recording.tunables.items()]
    space = Space(tunables, valid_keys=document["replay"]["valid_keys"])
    assert space.valid_count == 4
    assert all(space.key(entry.config) == key for key, entry in recording.entries.items())


@pytest.mark.parametrize("cut", ["}}", "}}\n", ""])
def test_cache_file_without_closing_braces_is_read_completely(cut: str) -> None:
    text = json.dumps(cache()) + "\n"
    opened = text[: text.rindex("}}")] + ("," if cut == "" else "")
    assert parse_recording(opened, "tiny") == parse_recording(text, "tiny")


@pytest.mark.parametrize("time", [1e20, 10**20, float("nan"), float("inf")])
def test_recorded_config_with_an_invalid_time_is_a_failure(time: float) -> None:
    failed = {"block": 16, "layout": "row", "time": time}
    recording = parse(cache(cache={"a": failed, "b": {"block": 32, "layout": "row", "time": 1.0}}))
    kinds = sorted(type(entry.outcome).__name__ for entry in recording.entries.values())
    assert kinds == ["LaunchFailed", "Measured"]
    recording = parse(t4(result(block=1, value=time), result(block=2)))
    assert [type(entry.outcome).__name__ for entry in recording.entries.values()] == kinds


def test_tunable_values_of_a_kernel_tuner_cache_are_sorted_and_equal_entries_count_once() -> None:
    entry = {"block": 16, "layout": "row", "time": 1.0}
    unsorted = {"layout": ["row", "col", "row"], "block": [32, 16, 64.5, 16.0]}
    recording = parse(cache(tune_params=unsorted, cache={"a": entry | {"compile_time": float("nan")}, "b": entry}))
    assert recording.costs("16,row").total_s == 0
    assert recording.tunables == {"block": (16, 32, 64.5), "layout": ("row", "col")}
    assert recording.optimum_us == pytest.approx(1000)


ONE = {"block": 16, "layout": "row"}


@pytest.mark.parametrize(
    ("document", "field", "said"),
    [
        (
            cache(cache={"a": {**ONE, "time": 1.0}, "b": {**ONE, "time": 2.0}}),
            "tiny: cache['b']",
            "1 ms and 2 ms",
        ),
        (
            cache(cache={"a": {**ONE, "time": 1.0}, "b": {**ONE, "block": 16.0, "time": 2.0}}),
            "tiny: cache['b']",
            "2 ms",
        ),
        (
            cache(cache={"a": {**ONE, "time": "InvalidConfig"}, "b": {**ONE, "time": 2.0}}),
            "tiny: cache['b']",
            "invalid config and 2 ms",
        ),
        (t4(result(0.5, block=1), result(0.25, block=1)), "tiny: results[1]", "500 µs and 250 µs"),
        (t4(result(0.5, block=1), result(invalidity="compile", block=1)), "tiny: results[1]", "and compile failed"),
    ],
)
def test_recording_with_two_results_of_one_config_is_refused(document: Document, field: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=r"has two different results, .+; keep the correct entry") as refused:
        parse(document)
    assert refused.value.field == field and said in str(refused.value)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_recording_with_two_values_for_one_key_is_refused(cut: int) -> None:
    text = json.dumps(cache(cache={"16,row": {**ONE, "time": 1.0}, "16,col": {**ONE, "time": 2.0, "layout": "col"}}))
    twice = text.replace('"16,col"', '"16,row"')
    with pytest.raises(InvalidInput, match=r"tiny: the key '16,row' occurs twice .+; keep one"):
        parse_recording(twice[: len(twice) - cut], "tiny")
    nan = json.dumps(cache()).replace('"device_name"', '"x": {"y": NaN}, "x": {"y": NaN}, "device_name"')
    assert parse_recording(nan, "tiny").entries == parse(cache()).entries


def test_t4_format_gives_every_config_its_outcome_and_costs() -> None:
    kinds = {
        "compile": CompileFailed,
        "runtime": LaunchFailed,
        "correctness": WrongAnswer,
        "constraints": InvalidConfig,
        "timeout": TimedOut,
    }
    failures = [result(invalidity=kind, block=2 + number) for number, kind in enumerate(kinds)]
    recording = parse(t4(result(block=1, value=0.25), *failures))
    measured = recording.outcome("1")
    assert isinstance(measured, Measured)
    assert measured.timing.median_us == pytest.approx(250.0)
    assert [type(recording.outcome(str(2 + number))) for number in range(5)] == list(kinds.values())
    costs = recording.costs("1")
    assert (costs.compile_s, costs.verify_s, costs.benchmark_s) == pytest.approx((1.5, 0.02, 0.007))


def test_tunable_values_from_t4_format_are_the_recorded_values_in_order() -> None:
    recording = parse(t4(*(result(block=block, layout=layout) for block, layout in [(32, "row"), (8, "col")])))
    assert recording.tunables == {"block": (8, 32), "layout": ("row", "col")}


@pytest.mark.parametrize("unit", ["", "GFLOP/s"])
def test_results_in_t4_format_with_another_objective_are_ranked_by_their_times(unit: str) -> None:
    slow, fast = result(block=1, value=9.0), result(block=2, value=1.0)
    for each, speed in ((slow, 100.0), (fast, 900.0)):
        each["measurements"].append({"name": "GFLOP/s", "value": speed, "unit": unit})
        each["objectives"] = ["GFLOP/s"]
    recording = parse(t4(slow, fast))
    assert recording.optimum_us == pytest.approx(1000)
    assert fastest(recording, 1) == [{"block": 2}]


def test_results_in_t4_format_may_contain_the_time_as_objective_and_as_measurement() -> None:
    each = result(block=1)
    each["measurements"].append({"name": "kernel", "value": [3.0, 1.0, 2.0], "unit": "us"})
    assert parse(t4(each | {"objectives": ["kernel"]})).optimum_us == pytest.approx(2.0)


def test_identical_results_of_a_config_in_t4_format_count_once() -> None:
    recording = parse(t4(result(block=1, value=0.5), result(block=1, value=0.5)))
    assert recording.optimum_us == pytest.approx(500.0)


@pytest.mark.parametrize(
    ("unit", "factor"), [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("miliseconds", 1e3), ("s", 1e6), ("", 1e6)]
)
def test_time_units_of_t4_format_are_converted(unit: str, factor: float) -> None:
    recording = parse(t4(result(block=1, value=2.0, unit=unit), timeunit="seconds"))
    assert recording.optimum_us == pytest.approx(2 * factor)
    assert recording.costs("1").compile_s == pytest.approx(1500.0)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"kernel": 1}, "tiny"),
        (cache(tune_params={}), "tiny: tune_params"),
        (cache(tune_params_keys=["block", "lay"]), "tiny: tune_params_keys"),
        (cache(tune_params_keys=["block"]), "tiny: tune_params_keys"),
        (cache(cache={"a": {"block": 17, "layout": "row", "time": 1.0}}), "tiny: cache['a'].block"),
        (cache(cache={"a": {"block": 16, "layout": ["row"], "time": 1.0}}), "tiny: cache['a'].layout"),
        (cache(cache={"a": {"block": 16, "layout": "row", "time": "Odd"}}), "tiny: cache['a'].time"),
        (cache(cache={"a": {"block": 16, "layout": "row", "time": -1}}), "tiny: cache['a'].time"),
        (cache(cache={"a": {"block": 16, "layout": "row"}}), "tiny: cache['a'].time"),
        (cache(cache={"a": {"block": 16, "layout": "row", "time": 1e-12}}), "tiny: cache['a'].time"),
        (cache(cache={"a": {"block": 16, "layout": "row", "time": 1e19}}), "tiny: cache['a'].time"),
        (cache(cache={"a": 3}), "tiny: cache['a']"),
        (
            cache(cache={"a": {"block": 16, "layout": "row", "time": 1.0, "compile_time": -1}}),
            "tiny: cache['a'].compile_time",
        ),
        (cache(cache={"a": {"block": 16, "layout": "row", "time": "InvalidConfig"}}), "tiny"),
        (cache(cache={}), "tiny"),
        (t4(), "tiny: results"),
        (t4(result()), "tiny: results[0].configuration"),
        (t4(result(block=[1])), "tiny: results[0].configuration.block"),
        (t4(result(block=1), result(layout=1)), "tiny: results[0].configuration.layout"),
        (t4(result(block=1, invalidity="odd")), "tiny: results[0].invalidity"),
        (t4(result(block=1, unit="GFLOP/s")), "tiny: results[0].measurements.time.unit"),
        (t4(result(block=1) | {"measurements": [{"name": "power", "value": 3}]}), "tiny: results[0].measurements"),
        (
            t4(
                result(block=1) | {"objectives": ["power"], "measurements": [{"name": "power", "value": 3, "unit": ""}]}
            ),
            "tiny: results[0].measurements",
        ),
        (t4(result(block=1), timeunit="weeks"), "tiny: metadata.timeunit"),
        (t4(result(block=1) | {"times": [1]}), "tiny: results[0].times"),
        (t4(result(block=1) | {"measurements": [1]}), "tiny: results[0].measurements[0]"),
        (t4(result(block=1) | {"times": {"compilation": "long"}}), "tiny: results[0].times.compilation"),
    ],
)
def test_error_names_the_field_of_a_malformed_recording(document: Document, field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse(document)
    assert refusal.value.field == field


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '{"cache": {"1": {"time": 1.0', "[" * 100_000])
def test_recording_that_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="tiny"):
        parse_recording(text, "tiny")


def paths(document: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value of a document."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    for place, value in inside:
        yield (*above, place)
        if isinstance(value, dict | list):
            yield from paths(value, (*above, place))


ODD: tuple[Any, ...] = (None, True, -1, 0, 1e400, "odd", [], [1], ["x"], [None], {}, {"a": 1})


@pytest.mark.parametrize("document", [cache(), t4(result(block=1), result(block=2), timeunit="ms")])
def test_recording_with_a_value_of_the_wrong_type_is_refused_or_readable(document: Document) -> None:
    for path, value in itertools.product(list(paths(document)), ODD):
        damaged = json.loads(json.dumps(document))
        inner = damaged
        for place in path[:-1]:
            inner = inner[place]
        inner[path[-1]] = value
        try:
            assert parse(damaged).optimum_us > 0
        except InvalidInput as refusal:
            assert refusal.field.startswith("tiny")


OUTCOMES: tuple[tuple[Outcome, str, float | str], ...] = (
    (Measured(timing=Timing(samples_us=(3.0, 5.0, 4.0))), "correct", 0.004),
    (Pruned(timing=Timing(samples_us=(9.0,)), threshold_us=8.0), "correct", 0.009),
    (
        Pruned(timing=Timing(samples_us=(99.0,)), threshold_us=8.0, verified=False),
        "timeout",
        "RuntimeFailedConfig",
    ),
    (CompileFailed(log="no"), "compile", "CompilationFailedConfig"),
    (OverResources(resource="registers", used=300, limit=255), "runtime", "RuntimeFailedConfig"),
    (WrongAnswer(reason="no"), "correctness", "RuntimeFailedConfig"),
    (LaunchFailed(reason="no"), "runtime", "RuntimeFailedConfig"),
    (TimedOut(stage="verify", limit_s=1.0), "timeout", "RuntimeFailedConfig"),
    (Crashed(stage="measure", reason="SIGSEGV"), "runtime", "RuntimeFailedConfig"),
    (Impossible(timing=Timing(samples_us=(0.1,)), floor_us=1.0), "correctness", "RuntimeFailedConfig"),
    (InvalidConfig(reason="no"), "constraints", "InvalidConfig"),
)


def test_every_outcome_round_trips_through_both_recording_formats() -> None:
    entries = {
        str(x): Entry(config={"x": x}, outcome=outcome, costs=Costs(compile_s=0.5, verify_s=0.25, benchmark_s=0.125))
        for x, (outcome, _, _) in enumerate(OUTCOMES)
    }
    made = Recording(name="made", device="Imaginary 100", tunables={"x": tuple(range(len(entries)))}, entries=entries)
    cache_file = cache_document(made, kernel="k", problem_size=[3], problem="n=3")
    results_file = results_document(made, problem="n=3")
    assert [each["time"] for each in cache_file["cache"].values()] == [time for _, _, time in OUTCOMES]
    assert [each["invalidity"] for each in results_file["results"]] == [word for _, word, _ in OUTCOMES]
    assert cache_file["cache"]["0"]["times"] == [0.003, 0.005, 0.004]
    for document in (cache_file, results_file):
        read = parse(document)
        assert list(read.entries) == list(made.entries)
        assert read.device == made.device
        assert read.optimum_us == pytest.approx(4.0)
        assert {read.costs(key).total_s for key in read.entries} == {0.875}


def test_error_for_an_unrecorded_config_shows_an_example_key() -> None:
    recording = parse(cache())
    with pytest.raises(NotFound, match=r"'64,row'.*block, layout, e\.g\. '16,row'"):
        recording.outcome("64,row")
    with pytest.raises(NotFound):
        recording.costs("")


def test_recording_keys_use_the_declared_spelling_of_a_value() -> None:
    entry = {"block": 16.0, "layout": "row", "time": 1.0}
    assert list(parse(cache(cache={"16,row": entry})).entries) == ["16,row"]
    assert config_key({"a": 0.5, "b": True, "c": "x"}) == "0.5,True,x"


def test_unsupported_characters_in_names_and_texts_of_a_recording_are_replaced() -> None:
    entry = {"2nd block-size": 16, "layout": "row, major", "time": 1.0}
    odd = cache(
        tune_params_keys=["2nd block-size", "layout"],
        tune_params={"2nd block-size": [16, 32], "layout": ["row, major", "", "auto=1", 7, True, "\ud800x"]},
        cache={"a": entry, "b": entry | {"layout": 7, "2nd block-size": 32}, "c": entry | {"layout": True}},
    )
    recording = parse(odd)
    assert recording.tunables == {
        "_2nd_block_size": (16, 32),
        "layout": ("row_major", "_", "auto_1", "7", "True", "_x"),
    }
    assert list(recording.entries) == ["16,row_major", "32,7", "16,True"]
    measured = result(0.25, "ms", "correct", **{"2nd block-size": 16, "layout": "row, major"})
    assert list(parse(t4(measured)).entries) == ["16,row_major"]
    for read in (recording, parse(t4(measured))):
        assert Family.from_document(read.document(), "tiny").name == "tiny"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            cache(tune_params={"block": [16], "layout": ["a b", "a_b"]}),
            r"'a b' and 'a_b' would both be written a_b; change one",
        ),
        (
            t4(result(0.25, "ms", "correct", **{"a b": 1, "a_b": 1})),
            r"'a b' and 'a_b' would both get the name a_b; rename one of them",
        ),
        (
            cache(tune_params={"block": [16, 32], "layout": ["1", 1]}),
            r"layout: '1' and 1 would both be written 1; change one",
        ),
    ],
)
def test_recording_whose_names_or_values_would_be_written_alike_is_refused(document: Document, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse(document)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (cache(tune_params={"block": [16, 1 << 62], "layout": ["x"]}), r"tune_params.block: expected a finite number"),
        (cache(tune_params={"block": [16.0, float("inf")], "layout": ["x"]}), r"tune_params.block: expected a finite"),
        (
            cache(cache={"a": {"block": 16, "layout": "row", "time": 1, "compile_time": 10**400}}),
            "expected a finite number",
        ),
    ],
)
def test_recording_with_infinite_or_too_large_numbers_is_refused(document: Document, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse(document)


def test_recorded_values_of_several_types_become_distinct_texts() -> None:
    values = ["off", 1, True, 2.5, False, 0]
    entries = {str(index): {"m": value, "time": 1.0 + index} for index, value in enumerate(values)}
    recording = parse({"tune_params": {"m": values}, "cache": entries})
    assert recording.tunables == {"m": ("off", "1", "True", "2.5", "False", "0")}
    assert list(recording.entries) == ["off", "1", "True", "2.5", "False", "0"]
    results = [result(m=value, value=1.0 + index) for index, value in enumerate(values)]
    assert list(parse(t4(*results)).entries) == list(recording.entries)


def test_recorded_integers_and_floats_become_values_of_one_type() -> None:
    entries = {str(index): {"m": value, "time": 1.0} for index, value in enumerate([1, 0.5, 2.0])}
    recording = parse({"tune_params": {"m": [0.5, 1.0, 2]}, "cache": entries})
    assert recording.tunables == {"m": (0.5, 1.0, 2)}
    assert [entry.config for entry in recording.entries.values()] == [{"m": 1.0}, {"m": 0.5}, {"m": 2}]


def test_truncated_cache_file_keeps_its_complete_entries() -> None:
    text = json.dumps(cache())
    last = text.index('"32,col"')
    for end in range(last, len(text) - 2):
        assert list(parse_recording(text[:end], "tiny").entries) == ["16,row", "32,row", "16,col"], text[last:end]


@pytest.mark.parametrize("text", [json.dumps(t4(result(block=1)))[:-30], json.dumps(cache())[:100]])
def test_truncated_recording_without_complete_entries_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"tiny: (is cut off at line 1; copy the file again|not valid JSON: Unterminated)"
    ):
        parse_recording(text, "tiny")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            cache(objective="score", cache={"a": {"block": 16, "layout": "row", "score": -1.0}}),
            r"^tiny: objective: it is 'score', and no entry of `cache` has a 'time'.*minimises the time"
            r".*as \"score\" improves, e.g. 2 for -1, .*\"time\": 0.5",
        ),
        (
            t4(result(block=1) | {"objectives": ["score"], "measurements": [{"name": "score", "value": -1.0}]}),
            r"measurements: the objective 'score' is not a time, and no measurement is named 'time'; .*minimises"
            r" the time"
            r".*e.g. 2 for -1, which is 1 - \"score\"",
        ),
        (
            {"General": {}, "ConfigurationSpace": {}},
            r"the file has the keys `General`, `ConfigurationSpace`: T1's description .* use the",
        ),
        ({"Metadata": {}, "Results": []}, r"has the keys `Metadata`, `Results`: results in KTT's own format; write"),
        ({"time": 1}, r"expected a Kernel Tuner cache \(.*\) or T4 results \(.*\), but the file has the keys `time`"),
        (cache(cache={"a": {"block": 16, "layout": "row"}}), r"time: is missing; write milliseconds, or a failure"),
        (cache(cache={"a": {"block": 16, "layout": "row", "time": "n/a"}}), r"'n/a' is not a time; write milliseconds"),
        (
            cache(cache={"a": {"block": 16, "layout": "row", "time": "InvalidConfig"}}),
            r"\(1 invalid config\); add a `time` to at least one",
        ),
        (cache(tune_params=["block"]), "tune_params: must be an object with at least one tunable"),
        (t4({"configuration": [16]}), "configuration: must be an object with a value for each tunable"),
        (t4(result(block=[1, 2])), r"not a number, a bool or a string; write it as a string, e\.g\. \"\[1_2\]\""),
    ],
)
def test_recording_without_times_is_refused_with_the_reason(document: Document, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse(document)


def test_synthetic_recording_equals_the_output_of_its_generator() -> None:
    text = synthetic.FILE.read_text()
    assert json.loads(text) == synthetic.document()
    recording = parse_recording(text, "synthetic")
    outcomes = [entry.outcome for entry in recording.entries.values()]
    assert {type(outcome) for outcome in outcomes} == {Measured, CompileFailed, LaunchFailed}


def test_recording_name_is_a_valid_family_name() -> None:
    for text in ("softmax-rows=64,cols=256-Intel(R) Xeon(R) Processor", "sdpa-" + "B=1," * 40 + "-NVIDIA H200"):
        assert WORD.fullmatch(recording_name(text))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            '{"input": ["cuda", "matmul", [], {}], "config": {"index": 3, "entity": [["tile", "sp", [-1, 4]]]}, '
            '"result": [[0.001], 0, 1.5, 1700000000.0], "version": 0.2}\n',
            "a log of AutoTVM",
        ),
        (
            '{"device": "GPU", "results": [{"kernel": "gemm", "time": 1.25, "parameters": {"MWG": 64, "NWG": 32}}]}',
            "results in CLTune's own format",
        ),
        ('{"Metadata": {}, "Results": []}', "results in KTT's own format"),
        ('{"ConfigurationSpace": {"TuningParameters": []}}', "T1's description of a space"),
    ],
)
def test_error_names_the_tuner_of_an_unsupported_file(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        parse_recording(text, "space")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('{"cache": {}, }', "column 15; leave out the comma"),
        ('{"cache": True}', "column 11; write true"),
        ("{'cache': {}}", 'column 2; put strings and names in " quotes'),
        ('{"a": 1} // notes', "leave out the comment, which JSON does not allow"),
    ],
)
def test_error_for_a_recording_with_invalid_json_shows_the_correction(document: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_recording(document, "tiny")
    assert "not valid JSON" in raised.value.reason
    assert raised.value.reason.endswith(reason)


def test_error_for_a_recorded_config_without_a_tunable_names_the_field() -> None:
    entry: Document = {"times": {"runtimes": [1.0]}, "invalidity": "correct", "objectives": ["time"]}
    entry["measurements"] = [{"name": "time", "value": 1.0, "unit": "ms"}]
    configs = ({"X": 1, "Y": 1}, {"X": 2, "Y": 2}, {"X": 1})
    document = {"schema_version": "1.0.0", "results": [{**entry, "configuration": each} for each in configs]}
    with pytest.raises(InvalidInput) as raised:
        parse_recording(json.dumps(document), "tiny")
    assert raised.value.field == "tiny: results[2].configuration.Y"
    assert raised.value.reason == "is missing, but other configs have it: add its value"


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("[]", "tiny", "expected a JSON object, got []; write e.g. {"),
        ("null", "tiny", "expected a JSON object, got null; write e.g. {"),
        ("A,time\n1,2\n", "tiny", "is not JSON; write e.g. {"),
        (" \n", "tiny", "is empty; copy the file again"),
        (json.dumps([cache()]), "tiny", "is a list with the recording as its only entry; remove the outer brackets"),
        ('[{"configuration": {"A": 1}}]', "tiny", 'put it into an object: {"results": LIST}'),
        (
            '{"tune_params": {"A": [1]}, "cache": [{"A": 1}]}',
            "tiny: cache",
            "must be an object whose values are results, not [{",
        ),
        (
            '{"tune_params": {"A": [1]}, "cache": null}',
            "tiny: cache",
            "must be an object whose values are results, not null; write",
        ),
        ('{"tune_params": {"A": [1]}, "cache": {"1": [1]}}', "tiny: cache['1']", "must be an object of names and"),
    ],
)
def test_error_for_a_recording_with_an_unknown_structure_states_a_remedy(text: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_recording(text, "tiny")
    assert raised.value.field == field
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    "text", ['[{"A": 1, "time": 0.5}, {"A": 2, "time": 1}]', '{"A": 1, "time": 0.5}\n{"A": 2, "time": 1}\n']
)
def test_error_for_an_unreadable_list_of_results_shows_a_valid_result(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_recording(text, "tiny")
    example = json.loads(raised.value.reason.partition("e.g. ")[2])
    (entry,) = parse_recording(json.dumps({"results": [example]}), "tiny").entries.values()
    assert isinstance(entry.outcome, Measured)
    assert (entry.config, entry.outcome.timing.median_us) == ({"A": 1}, 500.0)

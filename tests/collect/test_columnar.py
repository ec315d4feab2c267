"""Rules of the columnar parser: whatever Prometheus may write, it reads what `json` reads, bit for bit."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.collect import matrix_parser
from workbench.collect.matrix_parser import parse_answer

# Prometheus' own spellings.
VALUES = st.one_of(
    st.sampled_from(["NaN", "+Inf", "-Inf", "-0", "1e-320", "123456789012345680", "0"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**60), 2**60).map(str),
)
LABELS = st.dictionaries(
    st.text(st.characters(categories=["Ll"]), min_size=1, max_size=6), st.text(max_size=12), max_size=4
)
SERIES = st.lists(
    st.tuples(LABELS, st.lists(st.tuples(st.integers(0, 4_000_000_000_000), VALUES), min_size=1, max_size=5)),
    max_size=5,
)


def answer(series: list[tuple[dict[str, str], list[tuple[int, str]]]]) -> bytes:
    """An answer as Prometheus writes it: no blanks, milliseconds as decimals of seconds."""
    result = [{"metric": labels, "values": [[ms / 1000, value] for ms, value in samples]} for labels, samples in series]
    document = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


@given(SERIES)
def test_the_fast_way_reads_what_json_reads(series: list[tuple[dict[str, str], list[tuple[int, str]]]]) -> None:
    """Labels with quotes, brackets and marks in them, NaN, infinities, denormals and -0 included."""
    series = [({k: v.encode("utf-8", "replace").decode() for k, v in labels.items()}, rows) for labels, rows in series]
    body = answer(series)
    matrix = parse_answer(body).matrix
    assert [labels for labels, _, _ in matrix.series()] == [labels for labels, _ in series]
    for (_, ts_us, values), (_, rows) in zip(matrix.series(), series, strict=True):
        assert ts_us.tolist() == [ms * 1000 for ms, _ in rows]
        expected = np.array([float(value) for _, value in rows])
        same = (values.view(np.uint64) == expected.view(np.uint64)) | (np.isnan(values) & np.isnan(expected))
        assert same.all()


def test_an_answer_in_many_blocks_is_that_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block ends behind any series; the text after the last one is still read."""
    series = [({"n": str(at)}, [(1000 * k, f"{at}.{k}") for k in range(1, 2 + at % 5)]) for at in range(40)]
    body = answer(series)
    whole = parse_answer(body).matrix
    for size in (0, 30, 500, len(body)):
        monkeypatch.setattr(matrix_parser, "_BLOCK_BYTES", size)
        found = parse_answer(body).matrix
        assert list(found.labels) == [labels for labels, _ in series]
        assert found.lengths.tolist() == [len(rows) for _, rows in series]
        assert found.ts_us.tolist() == whole.ts_us.tolist() == [ms * 1000 for _, rows in series for ms, _ in rows]
        assert (
            found.values.tolist() == whole.values.tolist() == [float(value) for _, rows in series for _, value in rows]
        )
    with pytest.raises(ValueError, match="inconsistent"):
        parse_answer(body.replace(b'"39.1"', b'"39.1\n\n"'))


def test_a_label_that_looks_like_the_marks_does_not_split_a_series() -> None:
    """A quote inside of a string is always escaped, so the marks cannot stand in a label."""
    hostile = '","values":[[1,"2"]]},{"metric":{'
    matrix = parse_answer(answer([({"topic": hostile}, [(1000, "5")])])).matrix
    assert [labels for labels, _, _ in matrix.series()] == [{"topic": hostile}]


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"success","data":{"resultType":"vector","result":[]}}',
        b'{"status":"success"}',
        b"<html>hello</html>",
        b"",
        b"[]",
        b'{"status":"success","data":[]}',
        b'{"status":"success","data":{"resultType":"matrix","result":{"a":1}}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":5,"values":[[1,"2"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"partition":5},"values":[[1,"2"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"2"]]}]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric": {},"values":[[1]]}]}}',
        b'{"status":"success","data":' + b"[" * 100_000,
    ],
)
def test_what_is_no_matrix_is_refused(body: bytes) -> None:
    """An answer of another kind is an error, never an empty result."""
    with pytest.raises(ValueError, match=r".*"):
        parse_answer(body)


def test_other_writings_take_the_plain_way() -> None:
    """Blanks, another order of keys, and native histograms (which have no "values") are read all the same."""
    spaced = b'{"data": {"result": [{"values": [[1.5, "2"]], "metric": {"a": "b"}}], "resultType": "matrix"}, "status": "success"}'
    [(labels, ts_us, values)] = parse_answer(spaced).matrix.series()
    assert (labels, ts_us.tolist(), values.tolist()) == ({"a": "b"}, [1_500_000], [2.0])
    native = (
        b'{"status":"success","data":{"resultType":"matrix","result":['
        b'{"metric":{"h":"1"},"histograms":[[1,{"count":"1","sum":"1"}]]},{"metric":{"a":"b"},"values":[[1,"NaN"]]}]}}'
    )
    [(labels, _, values)] = parse_answer(native).matrix.series()
    assert labels == {"a": "b"}
    assert math.isnan(values[0])


def test_an_empty_result_is_an_empty_matrix() -> None:
    """No series is a valid answer."""
    assert len(parse_answer(answer([])).matrix) == 0
    assert len(matrix_parser.EMPTY) == 0


# What servers write around their data: Thanos and Mimir warn at the end (a store each), VictoriaMetrics says it at the beginning.
STORES = [
    f'fetch series for {{prometheus="eu-{n}"}} from store 10.0.{n}.7:10901: rpc error: {"x" * 300}' for n in range(40)
]
DATA = '"data":{"resultType":"matrix","result":[%s]}'
ONE = '{"metric":{"topic":"t"},"values":[[1,"2"],[2,"3"]]}'
NATIVE = '{"metric":{"h":"1"},"histograms":[[1,{"count":"1","sum":"1"}]]}'


@pytest.mark.parametrize("series", ["", ONE, f"{ONE},{ONE}", f"{ONE},{NATIVE}"], ids=["none", "one", "two", "native"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"warnings": STORES}, 40),
        ({"warnings": ["one"], "stats": {"note": "x" * 10_000}}, 1),
        ({"warnings": ["one"], "isPartial": True}, 2),
        ({"isPartial": True}, 1),
        ({"infos": ["a store was left out", "PromQL info: metric might not be a counter"]}, 1),
        ({"isPartial": False, "warnings": [], "infos": None}, 0),
        ({}, 0),
    ],
    ids=["many", "stats", "both", "partial", "infos", "whole", "nothing"],
)
def test_what_is_missing_is_told_wherever_it_stands(
    series: str, before: bool, extra: dict[str, object], told: int
) -> None:
    """However much of it there is, before the data or behind them, in every shape that an answer has."""
    around = json.dumps(extra)[1:-1]
    parts = [
        '"status":"success"',
        *([around] if around and before else []),
        DATA % series,
        *([around] if around and not before else []),
    ]
    found = parse_answer(("{" + ",".join(parts) + "}").encode())
    assert len(found.partial) == told
    assert all("\n" not in text and len(text) <= 300 for text in found.partial)
    assert found.matrix.values.tolist() == [2.0, 3.0] * series.count('"values"')


@pytest.mark.parametrize("series", ["", ONE])
def test_an_error_with_data_is_an_error(series: str) -> None:
    """The status counts, wherever it stands; and data of another kind are no matrix however they look."""
    with pytest.raises(ValueError, match="boom"):
        parse_answer(("{" + DATA % series + ',"status":"error","error":"boom"}').encode())
    with pytest.raises(ValueError, match="a vector answer"):
        parse_answer(('{"status":"success",' + (DATA % series).replace("matrix", "vector") + "}").encode())

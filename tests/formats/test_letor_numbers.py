"""Every decimal number is read as Python's ``float`` reads it, to the last bit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gainful.errors import FormatError
from gainful.formats.letor import kernels as letor_kernels
from gainful.formats.letor import reader as letor

LARGEST = 1.7976931348623157e308

ADVERSARIAL = [
    "0", "-0", "0.0", "5.", ".5", "+.5", "00012", "0.000", "1e5", "1E+5", "1e-5", "1e0", "1e-0", "0e99999999999",
    "9007199254740992", "9007199254740993", "9007199254740994", "9007199254740995", "-9007199254740993",
    "9007199254740993.0000000000000000000000000000001", "9007199254740992.9999999999999999999999999999999",
    "12345678.12345678", "99999999.99999999", "123456789.123456789", "0.30000000000000004", "0.1", "1e23", "8.5e22",
    "1e22", "123e22", "1e-22", "1e-23", "2.2250738585072014e-308", "2.2250738585072011e-308", "4.9e-324", "5e-324",
    "2.4703282292062327e-324", "2.4703282292062328e-324", "2.47e-324", "1e-400", "1.7976931348623157e308",
    "1.7976931348623158e308", "17976931348623157" + "0" * 292, "1" + "0" * 308, "0." + "0" * 400 + "1",
    "0." + "0" * 300 + "12345678901234567890", "1" * 300, "1" * 30 + "." + "1" * 400, "0" * 500 + "7", "7." + "0" * 500,
    "1" + "0" * 400 + "e-400", "0." + "0" * 400 + "1e401", "9" * 19, "9" * 20, "18446744073709551615",
    "18446744073709551616", "10000000000000000000", "1.00000000000000011102230246251565404236316680908203125",
    "1.00000000000000011102230246251565404236316680908203124",
    "1.00000000000000011102230246251565404236316680908203126",
    "6.02214076e23", "3.1415926535897932384626433832795028841971",
]  # fmt: skip


@pytest.fixture(params=[0, letor.SMALL_FILE], ids=["compiled", "python"], scope="module", autouse=True)
def small_file(request: pytest.FixtureRequest) -> Iterator[None]:
    """Files are read by kernels alone, and with what is unusual left to Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "SMALL_FILE", request.param)
        yield


def read_values(path: Path, texts: list[str]) -> np.ndarray:
    path.write_text("".join(f"0 qid:1 1:{text}\n" for text in texts))
    return letor.read(path, sparse=False, n_threads=1).X[:, 0]


def assert_same_bits(found: np.ndarray, texts: list[str]) -> None:
    wanted = np.array([float(text) for text in texts])
    differing = np.flatnonzero(found.view(np.uint64) != wanted.view(np.uint64))
    assert not len(differing), [(texts[i], found[i], wanted[i]) for i in differing[:3]]


def test_adversarial(tmp_path: Path) -> None:
    texts = ADVERSARIAL + ["-" + text for text in ADVERSARIAL if text[0] not in "+-"]
    assert_same_bits(read_values(tmp_path / "a.txt", texts), texts)


@pytest.mark.parametrize("style", ["{!r}", "{:.16e}", "{:.25e}", "{:.17g}", "{:.20f}", "{:.18e}"])
def test_random_doubles(tmp_path: Path, rng: np.random.Generator, style: str) -> None:
    bits = rng.integers(0, 2**64, 4000, dtype=np.uint64)
    values = bits.view(np.float64)
    values = values[np.isfinite(values) & ((style != "{:.20f}") | (np.abs(values) < 1e100))]
    texts = [style.format(float(value)) for value in values]
    assert_same_bits(read_values(tmp_path / "a.txt", texts), texts)


def test_halfway_between_neighbours(tmp_path: Path, rng: np.random.Generator) -> None:
    """The exact decimal between two doubles, and a hair below and above it."""
    texts = []
    for exponent in rng.integers(-60, 60, 300):
        mantissa = int(rng.integers(2**52, 2**53)) * 2 + 1
        texts += [exact_decimal(mantissa * 10**9 + hair, int(exponent), 9) for hair in (0, 1, -1)]
        texts += [exact_decimal(mantissa, int(exponent)), exact_decimal(mantissa // 2, int(exponent))]
    assert_same_bits(read_values(tmp_path / "a.txt", texts), texts)


def exact_decimal(mantissa: int, exponent: int, shift: int = 0) -> str:
    """mantissa · 2**exponent / 10**shift without rounding."""
    if exponent >= 0:
        digits, places = str(mantissa << exponent), shift
    else:
        digits, places = str(mantissa * 5**-exponent), shift - exponent
    return f"{digits}e-{places}" if places else digits


def test_decimals_of_every_size(tmp_path: Path, rng: np.random.Generator) -> None:
    texts = []
    for _ in range(3000):
        digits = "".join(rng.choice(list("0123456789"), int(rng.integers(1, 40))))
        point = int(rng.integers(0, len(digits) + 1))
        power = f"e{rng.integers(-340, 300)}" if rng.random() < 0.7 else ""
        text = digits[:point] + "." + digits[point:] + power
        if abs(float(text)) <= LARGEST:
            texts.append(text)
    assert_same_bits(read_values(tmp_path / "a.txt", texts), texts)


@settings(max_examples=60)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_any_float(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    texts = [repr(value) for value in values]
    assert_same_bits(read_values(tmp_path_factory.mktemp("n") / "a.txt", texts), texts)


def test_few_numbers_are_left_to_python() -> None:
    """Seventeen digits, as programs write them, are settled by the compiled parser."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal(5000) * 10.0 ** rng.integers(-30, 30, 5000)
    texts = [repr(value).encode() for value in values.tolist()]
    starts = np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])
    later = np.column_stack([np.arange(len(values)), starts])
    found = np.empty(len(values))
    buf = np.frombuffer(b" ".join(texts), dtype=np.uint8)
    assert letor_kernels.read_numbers(buf, later, np.empty(0), found) == (-1, 0)
    assert np.array_equal(found, values)


def test_many_hard_numbers(tmp_path: Path) -> None:
    texts = [f"{k}e-320" for k in range(1, 3000)]
    assert_same_bits(read_values(tmp_path / "a.txt", texts), texts)


@pytest.mark.parametrize("sparse", [True, False])
def test_hard_numbers_in_lines_out_of_order(tmp_path: Path, sparse: bool) -> None:
    path = tmp_path / "a.txt"
    path.write_text("5e-324 qid:1 3:7e-324 1:1e-320 2:4\n0 qid:1 2:3e-322\n")
    data = letor.read(path, sparse=sparse)
    X = data.X.toarray() if sparse else data.X
    assert X.tolist() == [[1e-320, 4.0, 7e-324], [0.0, 3e-322, 0.0]]
    assert data.y.tolist() == [5e-324, 0.0]


@pytest.mark.parametrize("sparse", [True, False])
def test_hard_numbers_before_a_malformed_one(tmp_path: Path, sparse: bool) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 qid:1 3:7e-324\n0 qid:1 1:2 2:5e-324 3:x\n0 qid:1 1:1\n")
    with pytest.raises(FormatError, match="line 2, column 24: expected a number after '3:', found 'x'"):
        letor.read(path, sparse=sparse)


def test_single_precision_rounds_the_double(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "a.txt"
    values = [struct.unpack("f", struct.pack("I", int(b)))[0] for b in rng.integers(0, 2**31, 3000)]
    values = [value for value in values if np.isfinite(value)]
    path.write_text("".join(f"0 qid:1 1:{value!r}\n" for value in values))
    assert letor.read(path, dtype="float32").X[:, 0].tolist() == values


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1.7976931348623159e308", "9" * 310, "inf", "-Infinity"])
def test_infinite_values_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match="line 1, column 11: expected a number after '1:'"):
        read_values(tmp_path / "a.txt", [text])


@pytest.mark.parametrize("text", ["1e39", "-3.5e38", "3.4028235677973366e38"])
def test_values_too_large_for_single_precision(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"0 qid:1 1:{text}\n")
    with pytest.raises(FormatError, match=r"line 1, column 11: .*too large for float32"):
        letor.read(path, dtype="float32")


def test_grades_just_below_zero_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 qid:1 1:1\n-5e-324 qid:1 1:1\n")
    with pytest.raises(FormatError, match=r"line 2, column 1: expected a grade \(a number, 0 or more\)"):
        letor.read(path)

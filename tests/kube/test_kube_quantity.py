from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import MAX_INT64, byte_count, milli, parse, value


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("100m", 100),
        ("1.5", 1500),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5000),
        ("+1", 1000),
        ("0", 0),
        ("1u", 1),
        ("1n", 1),
        ("0.1m", 1),
        ("1500u", 2),
        ("0.0015", 2),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1e-3", 1),
        ("1E+2", 100_000),
        (1, 1000),
        (0.1, 100),
        (1e-05, 1),
    ],
)
def test_thousandths_are_rounded_up(text: object, thousandths: int) -> None:
    """The result is that of Kubernetes' MilliValue, for YAML numbers, too."""
    assert milli(text) == thousandths


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("512Mi", 512 << 20),
        ("1Gi", 1 << 30),
        ("1.5Gi", 3 << 29),
        ("0.1Ki", 103),
        ("1k", 1000),
        ("128M", 128_000_000),
        ("1e3", 1000),
        ("100m", 1),
        ("12E", 12 * 10**18),
        ("1T", 10**12),
        ("2P", 2 * 10**15),
        ("7Ei", 7 << 60),
        ("8Ei", MAX_INT64),
        (1 << 40, 1 << 40),
        (1e22, 10**22),
    ],
)
def test_units_are_rounded_up(text: object, units: int) -> None:
    """Binary suffixes are capped at 64 bits, as in Kubernetes; decimal ones are not."""
    assert value(text) == units


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        ".",
        "+",
        "-1",
        -1,
        "m",
        "1Kb",
        "1K",
        "1ki",
        "1i",
        "1mi",
        "1e",
        "1e1.5",
        "1eM",
        "1.1.1",
        "0x10",
        "1_000",
        "١",
        "1e999999999",
        "9" * 100,
        "nan",
        float("nan"),
        float("inf"),
        True,
        None,
        [],
        {"cpu": 1},
    ],
)
def test_what_is_not_a_quantity_is_named(text: object) -> None:
    """The error names the field."""
    with pytest.raises(ConfigError) as caught:
        parse(text, "limits.cpu")
    assert str(caught.value).startswith(f"limits.cpu: {text!r:.60}, expected a quan")


@given(st.integers(0, 10**15), st.integers(-9, 18))
def test_notations_of_one_number_are_equal(number: int, power: int) -> None:
    """A suffix, an exponent and the plain decimal number are one amount."""
    suffixes = {-9: "n", -6: "u", -3: "m", 3: "k", 6: "M", 9: "G", 12: "T", 18: "E"}
    exact = Fraction(number) * Fraction(10) ** power
    assert parse(f"{number}e{power}") == exact
    if power in suffixes:
        assert parse(f"{number}{suffixes[power]}") == exact
    if power < 0:
        digits = f"{number:0{1 - power}}"
        assert parse(f"{digits[:power]}.{digits[power:]}") == exact


def test_bytes_have_no_suffix_for_parts_of_one() -> None:
    """`512m` is meant to be 512Mi; fractions of large units are rounded up as ever."""
    assert byte_count("512Mi") == 512 << 20
    assert byte_count("0.1Ki") == 103
    for text in ("512m", "1u", "1n"):
        with pytest.raises(ConfigError, match=r"memory: '.*', expected bytes, such"):
            byte_count(text, "memory")

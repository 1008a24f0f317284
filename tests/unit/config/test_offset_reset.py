"""share.auto.offset.reset and its ISO-8601 durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.config import AutoOffsetReset, OffsetResetStrategy
from sharegroup.config.keys.offset_reset import duration_to_ms

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("PT5S", 5 * SECOND),
        ("PT0.25S", 250),
        ("PT1.0019S", 1_001),
        ("PT90M", 90 * MINUTE),
        ("PT24H", DAY),
        ("P2D", 2 * DAY),
        ("P1DT2H3M4S", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND),
        ("pt1h", HOUR),
    ],
)
def test_a_duration_is_converted_to_milliseconds(text: str, milliseconds: int) -> None:
    assert duration_to_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT5", "P1Y", "P1M", "PT1S2H", "PT.5S", " PT1S"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO-8601 duration"):
        duration_to_ms(text)


@pytest.mark.parametrize("text", ["-PT1S", "PT-1S", "P-1DT1H"])
def test_a_negative_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        duration_to_ms(text)


def test_strategies_are_read_in_any_case() -> None:
    assert AutoOffsetReset.parse("earliest") == (OffsetResetStrategy.EARLIEST, None)
    assert AutoOffsetReset.parse("LATEST") == (OffsetResetStrategy.LATEST, None)
    assert AutoOffsetReset.parse("by_duration:PT1H") == (OffsetResetStrategy.BY_DURATION, HOUR)


@pytest.mark.parametrize("text", ["none", "", "by_duration"])
def test_an_unknown_strategy_names_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"Value must be earliest \| latest \| by_duration:<ISO-8601 duration>"):
        AutoOffsetReset.parse(text)


@given(st.integers(0, 10**12))
def test_a_value_is_converted_to_text_and_back(duration_ms: int) -> None:
    reset = AutoOffsetReset(OffsetResetStrategy.BY_DURATION, duration_ms)
    assert AutoOffsetReset.parse(str(reset)) == reset

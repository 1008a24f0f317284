"""The demo's screen: progress lines, and a table that is updated in place."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sharegroup.testing.delivery_audit import Progress, TopicPartition

#: The maximum time between two printed lines, in seconds.
LINE_INTERVAL_S = 3.0
_POLL_S = 0.1


class Display:
    """The progress display: a table that is updated in place on a terminal, lines elsewhere."""

    def __init__(self, console: Console, title: str, records: int) -> None:
        self._console, self._title, self._records = console, title, records
        self._begin = time.monotonic()
        self._last = (self._begin, 0)
        self._live: Live | None = None
        self._shown: Progress | None = None
        self._printed_s = self._begin

    @contextmanager
    def live_table(self) -> Iterator[None]:
        """Show the table while the block runs, if the console is a terminal; `show` updates it."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def print_line(self, text: str) -> None:
        """Print a line that begins with the seconds since the start of the demo."""
        self._printed_s = time.monotonic()
        self._console.print(f"{time.monotonic() - self._begin:6.1f} s  {text}", highlight=False, soft_wrap=True)

    def wait(self, what: str, is_done: Callable[[], bool], stage: Callable[[], str] = lambda: "") -> None:
        """Wait until `is_done()` is True. Print `what` now, and with the stage every `LINE_INTERVAL_S` seconds."""
        self.print_line(f"waiting for {what}")
        while not is_done():
            if time.monotonic() - self._printed_s >= LINE_INTERVAL_S:
                self.print_line(f"  still waiting for {what}{(reached := stage()) and ': '}{reached}")
            time.sleep(_POLL_S)  # polls other processes

    def show(self, now: Progress, log_end_offsets: Mapping[TopicPartition, int]) -> None:
        """Show the progress in the live table. Without a table, print a line if the progress has changed.

        If no line was printed for `LINE_INTERVAL_S` seconds, print one anyway.
        """
        rate = self._rate(now.finished)
        lag = now.lag(log_end_offsets)
        deliveries = "  ".join(f"{count}x {records:,}" for count, records in sorted(now.deliveries.items())) or "-"
        if self._live is None:
            if now != self._shown or time.monotonic() - self._printed_s >= LINE_INTERVAL_S:
                self.print_line(
                    f"{now.finished:>7,} of {self._records:,} finished, {rate:>6,.0f} rec/s, "
                    f"in flight {now.acquired.total():,}, lag {lag:,}, deliveries {deliveries}"
                )
            self._shown = now
            return
        outcomes = ", ".join(f"{what} {records:,}" for what, records in sorted(now.outcomes.items())) or "-"
        held = ", ".join(f"{records:,}" for _, records in sorted(now.acquired.items())) or "none"
        table = Table(title=self._title, show_header=False, min_width=70)
        table.add_row("finished", f"{now.finished:,} of {self._records:,}   {outcomes}")
        table.add_row("throughput", f"{rate:,.0f} records/s")
        table.add_row("in flight", f"{now.acquired.total():,} acquired, by member: {held}; {now.available:,} available")
        table.add_row("lag", f"{lag:,}")
        table.add_row("delivered", f"{deliveries}   ({now.redelivered:,} redeliveries)")
        self._live.update(table, refresh=True)

    def _rate(self, finished: int) -> float:
        (then, before), now = self._last, time.monotonic()
        self._last = (now, finished)
        return (finished - before) / max(now - then, 1e-3)

"""Options whose value may be left out, as Kafka's tools have them: `--state`, or `--state Empty,Stable`."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperCommand

#: What an option has that is given without a value.
NO_VALUE = ""


class OptionalValues(TyperCommand):
    """A command some of whose options may come without their values, which are NO_VALUE then."""

    names: ClassVar[frozenset[str]] = frozenset({"--state", "--watch"})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Typer's, with the value put in where the next argument is an option, or nothing."""
        following = [*args[1:], "-"]
        return super().parse_args(
            ctx,
            [
                f"{argument}={NO_VALUE}" if argument in self.names and after.startswith("-") else argument
                for argument, after in zip(args, following, strict=True)
            ],
        )

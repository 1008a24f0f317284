"""Support for options whose value may be omitted, as in Kafka's tools: `--state`, or `--state Empty,Stable`."""

from typing import Any, ClassVar

from typer.core import TyperCommand

#: The value that a command receives for an option that is given without a value.
NO_VALUE = ""


class OptionalValues(TyperCommand):
    """A command that accepts the options in `names` without a value. Such an option gets the value NO_VALUE."""

    names: ClassVar[frozenset[str]] = frozenset({"--state", "--watch"})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add NO_VALUE to options in `names` that have no value, then parse the arguments as Typer does."""
        following = [*args[1:], "-"]
        return super().parse_args(
            ctx,
            [
                f"{argument}={NO_VALUE}" if argument in self.names and after.startswith("-") else argument
                for argument, after in zip(args, following, strict=True)
            ],
        )

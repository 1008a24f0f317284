"""Options with an optional value, as in Kafka's tools: `--state`, or `--state Empty,Stable`."""

from typing import Any, ClassVar

from typer.core import TyperCommand

#: The value of an option that is given without a value.
NO_VALUE = ""


class OptionalValues(TyperCommand):
    """A command that sets NO_VALUE for options in `names` that are given without a value."""

    names: ClassVar[frozenset[str]] = frozenset({"--state", "--watch"})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add NO_VALUE if the next argument is an option or missing, then parse as Typer does."""
        following = [*args[1:], "-"]
        return super().parse_args(
            ctx,
            [
                f"{argument}={NO_VALUE}" if argument in self.names and after.startswith("-") else argument
                for argument, after in zip(args, following, strict=True)
            ],
        )

"""The argument parser of the programs that have a `main` of their own, such as the job and the demo."""

import argparse
from typing import Any

from sharegroup import __version__


class CommandParser(argparse.ArgumentParser):
    """An ArgumentParser with the option --version, as in Kafka's tools."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_argument(
            "--version", action="version", version=f"sharegroup {__version__}", help="show the version and exit"
        )

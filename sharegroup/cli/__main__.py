"""Runs the command `sharegroup` as `python -m sharegroup.cli`, for environments where it is not on the PATH."""

from sharegroup.cli.app import main

main()

"""Runs `sharegroup` as `python -m sharegroup.cli`, for environments whose path does not contain the command."""

from sharegroup.cli.app import main

main()

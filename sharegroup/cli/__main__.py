"""Runs the command `sharegroup` as `python -m sharegroup.cli`, if its script is not on the path."""

from sharegroup.cli.app import main

main()

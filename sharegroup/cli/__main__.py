"""`python -m sharegroup.cli`: the command `sharegroup` without its script on the path."""

from sharegroup.cli.app import main

main()

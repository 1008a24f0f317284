"""`python -m sharegroup.cli`, where the command `sharegroup` is not on the path."""

from sharegroup.cli.app import main

main()

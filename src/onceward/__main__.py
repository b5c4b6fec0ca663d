"""`python -m onceward`, the same as the command `onceward`."""

from onceward.cli.main import main

main()

"""Lets `python -m harness` run the `harness` command."""

from harness.cli import main

main()

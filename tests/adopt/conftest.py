"""The command line, for the tests of converting."""

from tests.cli.conftest import cli as cli

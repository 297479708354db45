"""The command line of `parplan-torch`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from parplan.errors import Error
from parplan.torch.check.command import add_command as add_check
from parplan.torch.command import profile
from parplan.torch.trace.command import add_command as add_trace
from parplan.torch_program import add_versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        return code
    except (Error, OSError) as error:
        print(f"parplan-torch: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parplan-torch", description="parplan in PyTorch")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    profile.add_parser(commands)
    add_check(commands)
    add_trace(commands)
    add_versions(commands)
    return parser

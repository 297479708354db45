"""The program `parplan-torch`, as far as it runs without importing PyTorch."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from parplan import __version__

_LIBRARIES = ("parplan", "torch", "transformers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code, 1 if PyTorch is not installed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["versions"]:
        parser = argparse.ArgumentParser(prog="parplan-torch")
        add_versions(parser.add_subparsers())
        return print_versions(parser.parse_args(words))
    if importlib.util.find_spec("torch") is None:
        return _without_torch()
    # parplan.torch imports PyTorch, which takes seconds.
    program: Any = importlib.import_module("parplan.torch.command.main")
    code: int = program.main(words)
    return code


def add_versions(commands: Any) -> None:
    """Adds the command `versions` to the subparsers of `parplan-torch`."""
    versions = commands.add_parser(
        "versions", help="print the releases of parplan, PyTorch and transformers",
        description="Prints the releases of parplan, PyTorch and transformers, in a line each, "
        "without importing them. Exit code 1 if PyTorch is not installed.")
    versions.set_defaults(run=print_versions)
    versions.add_argument("--out", default="", metavar="FILE",
                          help="file to write instead of standard output")
    versions.add_argument("--format", choices=("text", "json"), default="text", help="[text]")


def print_versions(options: argparse.Namespace) -> int:
    """Runs the command `versions` and returns its exit code."""
    found = {name: _version(name) for name in _LIBRARIES}
    if not found["torch"]:
        return _without_torch()
    known = {name: version for name, version in found.items() if version}
    text = json.dumps(known, indent=2) if options.format == "json" else "\n".join(
        f"{name} {version}" for name, version in known.items())
    if options.out:
        pathlib.Path(options.out).write_text(text + "\n")
    else:
        print(text)
    return 0


def _version(name: str) -> str:
    """Returns the release of a library as it names it itself; empty if it is not installed."""
    if name == "parplan":
        return __version__
    if name == "torch":
        # It names its build too (2.15.0+cpu), which the distribution may not.
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return ""
        file = pathlib.Path(spec.origin).with_name("version.py")
        if file.exists():
            return str(runpy.run_path(str(file)).get("__version__", ""))
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _without_torch() -> int:
    print(f"parplan-torch: PyTorch is not installed for {sys.executable}; run {sys.executable} "
          "-m pip install 'parplan[torch]'", file=sys.stderr)
    return 1

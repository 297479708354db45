#!/usr/bin/python3
"""Writes the dashboards: deploy/grafana/dashboards/*.json, which are committed.

    generate.py [FOLDER]
"""
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fleet  # noqa: E402
import plans  # noqa: E402
import predictions  # noqa: E402
import service  # noqa: E402


def texts():
    """The files by name."""
    return {f"{module.__name__}.json": json.dumps(module.build(), indent=1) + "\n"
            for module in (plans, predictions, fleet, service)}


def main():
    here = pathlib.Path(__file__).resolve().parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "dashboards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

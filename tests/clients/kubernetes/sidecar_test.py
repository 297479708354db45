#!/usr/bin/python3
"""parplan-sidecar beside a real server: a plan comes, measurements go, and nothing is lost.

    sidecar_test.py --bin FOLDER --source FOLDER
"""
import argparse
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from sidecar_case import FLAGS  # noqa: E402  (finds what the cases import)
from init_cases import InitTest  # noqa: E402, F401
from run_cases import RunTest  # noqa: E402, F401


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

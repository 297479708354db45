#!/usr/bin/python3
"""Every test that is built has a limit of time, and a label by which a step of `./parplan-dev test`
chooses it or leaves it to another.

  test_properties_test.py --ctest PATH --build FOLDER
"""

import argparse
import json
import subprocess
import sys


def faults(document):
    """Returns what is wrong with the tests of a document of `ctest --show-only=json-v1`."""
    found = []
    for test in document["tests"]:
        # CTest knows a test program that this build leaves out by this name alone.
        if test["name"].endswith("_NOT_BUILT"):
            continue
        properties = {entry["name"]: entry["value"] for entry in test["properties"]}
        # A name of a property that is none is a word of a list that was taken apart.
        for name in properties:
            if not name.isupper() and not name.startswith("_"):
                found.append(f"{test['name']}: `{name}` is no property")
        for name in ("LABELS", "TIMEOUT"):
            if not properties.get(name):
                found.append(f"{test['name']}: has no {name}")
    return found


def test_of(name, **properties):
    return {"name": name,
            "properties": [{"name": key, "value": value} for key, value in properties.items()]}


def check_that_faults_are_found():
    good = test_of("Good.One", LABELS=["slow"], TIMEOUT=600.0)
    assert not faults({"tests": [good, test_of("left_out_NOT_BUILT")]})
    for broken, word in ((test_of("Bad.One", TIMEOUT=600.0), "LABELS"),
                         (test_of("Bad.One", LABELS=["slow"]), "TIMEOUT"),
                         (test_of("Bad.One", LABELS=["a"], TIMEOUT=1.0, slow="TIMEOUT"), "slow")):
        assert len(faults({"tests": [good, broken]})) == 1
        assert word in faults({"tests": [good, broken]})[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ctest", required=True)
    parser.add_argument("--build", required=True)
    flags = parser.parse_args()
    check_that_faults_are_found()
    done = subprocess.run([flags.ctest, "--test-dir", flags.build, "--show-only=json-v1"],
                          capture_output=True, text=True, check=True, timeout=500)
    found = faults(json.loads(done.stdout))
    print("\n".join(found[:20] or ["every test has a label and a limit of time"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

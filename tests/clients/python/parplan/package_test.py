"""The installed distribution: what it holds and says about itself."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

import parplan
from parplan.wire import messages


def test_the_version_is_that_of_the_project(source):
    version = re.search(r'kVersion\[\] = "(.*)"', (source / "proto/wire/version.h").read_text())[1]
    assert parplan.__version__ == version == importlib.metadata.version("parplan")


def test_the_tests_run_on_the_installed_wheel_which_is_pure_and_typed():
    files = importlib.metadata.files("parplan")
    names = {str(file) for file in files}
    installed = pathlib.Path(parplan.__file__).resolve()
    assert any(file.locate().resolve() == installed for file in files)
    assert {"parplan/py.typed", "parplan/contract.binpb"} <= names
    assert not [name for name in names if name.endswith(".so") or "parplan_executor" in name]
    wheel = importlib.metadata.distribution("parplan").read_text("WHEEL")
    assert "Tag: py3-none-any" in wheel


def test_the_contract_is_the_projects(source):
    golden = source / "tests/proto/golden/parplan.binpb"
    held = pathlib.Path(parplan.__file__).with_name("contract.binpb")
    assert held.read_bytes() == golden.read_bytes()


def test_every_reason_of_the_contract_has_a_class():
    values = messages.pool().FindEnumTypeByName("parplan.v1.ErrorReason").values
    names = {value.name.removeprefix("ERROR_REASON_") for value in values if value.number}
    assert names == set(parplan.errors.CLASS_OF_REASON)
    for reason, kind in parplan.errors.CLASS_OF_REASON.items():
        assert kind.__name__.lower() == reason.replace("_", "").lower()


def test_importing_parplan_imports_no_torch():
    done = subprocess.run([sys.executable, "-c", "import parplan, sys; sys.exit('torch' in "
                           "sys.modules)"], check=False)
    assert done.returncode == 0

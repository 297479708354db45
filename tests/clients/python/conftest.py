"""Where the tests find what was built: `--bin` has the programs, `--library` the C interface and
`--plans` what `plan_files` wrote. A test that needs one of them is skipped without it."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "integration"))


# Files that run longest, which begin first: files take turns on several cores (./parplan-dev
# torch-test), and a long one that begins last leaves the others without work.
LONGEST = ("steps_test.py", "parity_test.py", "first_steps_test.py", "memory_study_test.py",
           "command_test.py", "agent_test.py", "compile_test.py", "run_test.py", "processes_test.py",
           "failures_test.py", "zero_bubble_test.py", "splits_test.py", "profile_test.py")


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_addoption(parser):
    parser.addoption("--bin", type=pathlib.Path, help="folder of parplan-server and planctl")
    parser.addoption("--library", type=pathlib.Path, help="libparplan_executor.so.1")
    parser.addoption("--plan-files", type=pathlib.Path, help="the program plan_files")


@pytest.fixture(scope="session")
def bin_folder(request):
    folder = request.config.getoption("--bin")
    if folder is None:
        pytest.skip("needs --bin")
    return folder.resolve()


@pytest.fixture(scope="session")
def library(request):
    """The C interface, loaded."""
    path = request.config.getoption("--library")
    if path is None:
        pytest.skip("needs --library")
    sys.path.insert(0, str(ROOT / "clients" / "python"))
    try:
        import parplan_executor
    finally:
        sys.path.pop(0)
    return parplan_executor, parplan_executor.load_library(str(path.resolve()))


@pytest.fixture(scope="session")
def plan_folder(request, tmp_path_factory):
    """The plans of the executor's tests, with the programs of all ranks."""
    import subprocess
    program = request.config.getoption("--plan-files")
    if program is None:
        pytest.skip("needs --plan-files")
    folder = tmp_path_factory.mktemp("plans")
    subprocess.run([program.resolve(), folder], check=True, timeout=300)
    return folder


@pytest.fixture(scope="session")
def source():
    return ROOT

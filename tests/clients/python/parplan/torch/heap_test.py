"""Steps do not have their pages made anew. Pages are counted; no times are measured."""

import json
import pathlib
import resource

import pytest
import torch

from parplan.torch import heap
from parplan.torch.processes import start_ranks

PAGE, ROUNDS = resource.getpagesize(), 8
HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
# Together more than the end of the heap that the C library keeps: twice the largest.
SIZES = (4 << 20,) * 8


def made_anew():
    """Returns the pages that making, filling and freeing tensors once takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(size, dtype=torch.uint8) for size in SIZES]
    del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def count(rank, folder):
    torch.set_num_threads(1)
    kept = heap.keep_freed_memory()
    pages = [made_anew() for _ in range(ROUNDS)]
    heap.return_freed_memory()
    pathlib.Path(folder, "counts").write_text(json.dumps([kept, pages, made_anew()]))


@pytest.mark.skipif(HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text(),
                    reason="the system makes hundreds of pages at once, and counts one")
def test_freed_memory_is_taken_again(tmp_path):
    start_ranks(count, (str(tmp_path),), 1)
    kept, pages, after = json.loads((tmp_path / "counts").read_text())
    if not kept:
        pytest.skip("the C library is not glibc, or the environment sets its allocator")
    whole = sum(SIZES) // PAGE
    assert pages[0] > 0.9 * whole
    # Tensors lie elsewhere for some rounds, and then where others were.
    assert min(pages[1:]) < 0.25 * whole
    # Pages that were given back are made anew.
    assert after > 0.9 * whole


@pytest.mark.parametrize("refused", [None, heap._TRIM_THRESHOLD, heap._MMAP_THRESHOLD])
def test_the_library_is_asked_to_keep_all_it_can(monkeypatch, refused):
    for name in (*heap._VARIABLES, "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    asked = {}

    def mallopt(parameter, value):
        asked[parameter] = value
        return int(parameter != refused)

    monkeypatch.setattr(heap, "_function", lambda name: {"mallopt": mallopt}[name])
    assert heap.keep_freed_memory() == (refused is None)
    # By malloc.h: M_TRIM_THRESHOLD is -1 and none of it is -1, M_MMAP_THRESHOLD is -3 and at most
    # 32 MiB.
    if refused is None:
        assert asked == {-1: -1, -3: 32 * 1024 * 1024}


def test_settings_of_the_environment_stay(monkeypatch):
    def refuse(_):
        raise AssertionError("the C library was asked")

    monkeypatch.setattr(heap, "_function", refuse)
    for name, value in (("MALLOC_TRIM_THRESHOLD_", "1"),
                        ("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0")):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            assert not heap.keep_freed_memory()


def test_other_libraries_keep_what_they_do(monkeypatch):
    for name in heap._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(heap, "_function", lambda _: None)
    assert not heap.keep_freed_memory()
    heap.return_freed_memory()

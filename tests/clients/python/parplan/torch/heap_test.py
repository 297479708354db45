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


def count(rank, folder, keeps):
    torch.set_num_threads(1)
    kept = heap.keep_freed_memory() if keeps else False
    pages = [made_anew() for _ in range(ROUNDS)]
    heap.return_freed_memory()
    pathlib.Path(folder, "counts").write_text(json.dumps([kept, pages, made_anew()]))


def counts(folder, keeps):
    start_ranks(count, (str(folder), keeps), 1)
    return json.loads((folder / "counts").read_text())


@pytest.mark.skipif(HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text(),
                    reason="the system makes hundreds of pages at once, and counts one")
def test_freed_memory_is_taken_again(tmp_path):
    kept, pages, after = counts(tmp_path, True)
    if not kept:
        pytest.skip("the C library is not glibc, or the environment sets its allocator")
    whole = sum(SIZES) // PAGE
    assert pages[0] > 0.9 * whole
    # Tensors lie elsewhere for some rounds, and then where others were.
    assert min(pages[1:]) < 0.25 * whole
    # What was given back is made anew.
    assert after > 0.9 * whole
    # Without it pages are made in every round.
    assert min(counts(tmp_path, False)[1]) > 0.8 * whole


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

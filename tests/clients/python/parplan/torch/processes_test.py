"""Ranks that are forked from one process have what their caller has."""

import json
import os
import pathlib

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from parplan.torch import processes


def tell(rank, folder):
    """Writes what this rank has, and a line to standard output and standard error."""
    print(f"rank {rank} here", flush=True)
    os.write(2, f"rank {rank} there\n".encode())
    parent = os.getppid()
    pathlib.Path(folder, str(rank)).write_text(json.dumps({
        "parent": parent, "threads of the parent": len(os.listdir(f"/proc/{parent}/task")),
        "has a group": dist.is_initialized(), "has a GPU": torch.cuda.is_initialized(),
        "seed": torch.initial_seed(), "threads": os.environ.get("OPENBLAS_NUM_THREADS"),
        "variable": os.environ.get("PARPLAN_TEST"), "folder": os.getcwd()}))


def fail(rank, folder):
    pathlib.Path(folder, str(rank)).write_text("")
    raise RuntimeError(f"rank {rank} planted")


def told(folder, count=2):
    processes.start_ranks(tell, (str(folder),), count)
    return [json.loads((folder / str(rank)).read_text()) for rank in range(count)]


def test_ranks_begin_as_processes_of_their_own_would(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PARPLAN_TEST", "one")
    first = told(tmp_path)
    shown = capfd.readouterr()
    assert sorted(shown.out.splitlines()) == ["rank 0 here", "rank 1 here"]
    assert sorted(shown.err.splitlines()) == ["rank 0 there", "rank 1 there"]
    monkeypatch.setenv("PARPLAN_TEST", "two")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.chdir(tmp_path)
    second = told(tmp_path)
    assert [one["variable"] for one in (*first, *second)] == ["one"] * 2 + ["two"] * 2
    assert [one["threads"] for one in second] == ["7"] * 2
    assert [one["folder"] for one in second] == [str(tmp_path)] * 2
    # One process made all of them: with one thread, no group of ranks and no context of a GPU.
    assert len({one["parent"] for one in (*first, *second)}) == 1
    assert first[0]["parent"] != os.getpid()
    for one in (*first, *second):
        assert one["threads of the parent"] == 1
        assert not one["has a group"] and not one["has a GPU"]
    # Ranks draw other numbers wherever new processes would.
    seeds = {one["seed"] for one in (*first, *second)}
    assert len(seeds) == (1 if seeds == {67280421310721} else 4)


def test_a_rank_that_fails_is_an_error_with_its_traceback(tmp_path):
    with pytest.raises(multiprocessing.ProcessRaisedException, match="rank [01] planted"):
        processes.start_ranks(fail, (str(tmp_path),), 2)
    # The next job is not concerned.
    assert len(told(tmp_path)) == 2


def test_without_forks_each_rank_is_a_new_process(tmp_path):
    processes.start_ranks(tell, (str(tmp_path),), 1, forks=False)
    assert json.loads((tmp_path / "0").read_text())["parent"] == os.getpid()


WORK_SECONDS = 0.5


def work(rank):
    while sum(os.times()[:2]) < WORK_SECONDS:
        pass


def test_processor_time_of_ranks_is_that_of_children():
    def children():
        times = os.times()
        return times.children_user + times.children_system

    processes.end_server()
    before = children()
    processes.start_ranks(work, (), 2)
    processes.end_server()
    # Clocks tick every 10 ms.
    assert children() - before > 2 * WORK_SECONDS - 0.1
    # None runs now.
    processes.end_server()


def wait_for_end(pipe):
    pipe.recv()


def test_a_server_that_others_hold_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_PATIENCE", 0.1)
    told(tmp_path)
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    # It has a copy of the descriptor that keeps the server alive.
    holder = fork.Process(target=wait_for_end, args=(there,), daemon=True)
    holder.start()
    try:
        processes.end_server()
        assert holder.is_alive()
        # The next ranks have a server of their own.
        assert len(told(tmp_path)) == 2
    finally:
        here.send(None)
        holder.join()
    processes.end_server()

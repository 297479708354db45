"""Processes of this machine for the ranks of a small job.

Importing PyTorch, its distributed parts and this package takes a process about seven seconds of a
processor, and a job of four ranks four times as much. So one process imports them, once, and the
ranks of every job are forked from it (the start method "forkserver" of multiprocessing). It has one
thread, no group of ranks and no context of a GPU, and does nothing else, so that a rank begins as a
process of its own would: it has the environment, the working directory, standard output and standard
error that its caller has at that moment, and random numbers of its own, as far as PyTorch draws a
seed for each process. Only the seed of `hash` is the same on all ranks.

    start_ranks(work, (folder, job), 4)        # calls work(rank, folder, job) in each of 4
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, reduction
from typing import Any

import torch
import torch.multiprocessing

# Any, because the type stubs of torch.multiprocessing declare only a part of the module.
_processes: Any = torch.multiprocessing
# PyTorch 2.6 begins every process with this seed, later ones with one that they draw.
_SEED_OF_OLD_RELEASES = 67280421310721
# The process that began the server, and the server's.
_owner: tuple[int, int] | None = None
# How long the end of the server is waited for, in seconds. PyTorch's own takes a second of a
# processor.
_PATIENCE = 60.0
# The modules that ranks import; each brings those that it imports.
_preloaded = ["parplan.torch.check.steps", "parplan.torch.measure.rank"]


def preload(*modules: str) -> None:
    """Has the process that ranks are forked from import more, unless it runs already. Modules that
    are not there are left out."""
    _preloaded.extend(modules)


def start_ranks(work: Callable[..., None], arguments: tuple[Any, ...], count: int, *,
                forks: bool = True) -> None:
    """Calls `work`, a function of a module, with a number and `arguments` in each of `count`
    processes, and waits for them. Without `forks` each is a new Python: a process that was forked
    cannot use a GPU if an import asked for one before. A process that fails ends all of them; then
    raises the errors of torch.multiprocessing.spawn."""
    if not forks:
        _processes.spawn(work, args=arguments, nprocs=count)
        return
    _begin_server()
    given = (work, dict(os.environ), (_Descriptor(1), _Descriptor(2)), arguments)
    _processes.start_processes(_begin, args=given, nprocs=count, start_method="forkserver")


class _Descriptor:
    """A file descriptor that a process gets as its own of the same number."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._copy: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_number": self._number, "_copy": reduction.DupFd(self._number)}

    def take(self) -> None:
        os.dup2(self._copy.detach(), self._number)


def _begin(rank: int, work: Callable[..., None], environment: dict[str, str],
           streams: tuple[_Descriptor, ...], arguments: tuple[Any, ...]) -> None:
    # The imported modules stay for as long as the rank does, and the collector need not walk them.
    gc.freeze()
    for stream in streams:
        stream.take()
    os.environ.clear()
    os.environ.update(environment)
    if torch.initial_seed() != _SEED_OF_OLD_RELEASES:
        torch.default_generator.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    work(rank, *arguments)


def end_server() -> None:
    """Ends the process that ranks are forked from, if `start_ranks` began it, and waits for it. Then
    the processor time of all ranks is part of that of this process's children. The next ranks begin
    another. A process that this one forked meanwhile, and that still runs, may keep the server:
    then it is not waited for longer than a minute, and goes on."""
    global _owner
    server: Any = forkserver._forkserver
    descriptor = getattr(server, "_forkserver_alive_fd", None)
    number = getattr(server, "_forkserver_pid", None)
    # A process that was forked has the number of its parent's server.
    if descriptor is None or number is None or _owner != (os.getpid(), number):
        return
    # `ForkServer._stop` does the same, and waits without a limit.
    os.close(descriptor)
    server._forkserver_alive_fd = server._forkserver_pid = _owner = None
    if server._forkserver_address and not server._forkserver_address.startswith("\0"):
        with contextlib.suppress(OSError):
            os.unlink(server._forkserver_address)
    server._forkserver_address = None
    deadline = time.monotonic() + _PATIENCE
    with contextlib.suppress(ChildProcessError):  # Someone else has waited for it.
        while os.waitpid(number, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)


def _begin_server() -> None:
    global _owner
    before = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if "transformers" in sys.modules:
        preload("transformers")
    forkserver.set_forkserver_preload(_preloaded)
    # It finds the modules that this process has. NumPy's OpenBLAS would start threads.
    with _environment(PYTHONPATH=os.pathsep.join(sys.path), OPENBLAS_NUM_THREADS="1"):
        forkserver.ensure_running()
    begun = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if begun is not None and begun != before:
        _owner = (os.getpid(), begun)


@contextlib.contextmanager
def _environment(**changes: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

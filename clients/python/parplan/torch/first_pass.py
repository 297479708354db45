"""Facts that the first pass over a layer shows and its modules do not say: draws of random numbers,
statistics of a batch, and buffers that change. It is refused before the first update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from parplan.torch.layers import refused
from parplan.torch.module_checks import Shares, name_of


class FirstPass:
    """Watches the first pass over a layer."""

    def __init__(self, index: int, names: Mapping[int, str], shares: Shares) -> None:
        """`names` has the name within the model for the id of a module."""
        self._index, self._names, self.shares = index, names, shares
        # The modules that are running, the innermost last.
        self._running: list[nn.Module] = []

    @contextlib.contextmanager
    def over(self, layer: nn.Module) -> Iterator[None]:
        """Watches what runs within it. Raises SpecInvalid naming the layer and the module."""
        hooks = []
        # A pass that failed leaves some.
        self._running.clear()
        for module in layer.modules():
            hooks += [module.register_forward_pre_hook(self._begin, prepend=True),
                      module.register_forward_hook(self._end)]
        before = [(module, name, buffer, _version(buffer)) for module in layer.modules()
                  for name, buffer in module.named_buffers(recurse=False)]
        try:
            with _Operators(self):
                yield
        finally:
            for hook in hooks:
                hook.remove()
        for module, name, buffer, version in before:
            if _version(buffer) != version and (self.shares.splits_batch
                                                or self.shares.runs_again):
                raise self._refused(f"changes its buffer {name} in each pass, and micro-batches, "
                                    "replicas and recomputation make other passes than one "
                                    "process; call eval() on it, or keep it from doing that",
                                    module)

    def check(self, function: Any, args: Any, options: dict[str, Any]) -> None:
        """Called before each operator. Raises SpecInvalid."""
        schema = getattr(function, "_schema", None)
        if schema is None:
            return
        if self.shares.has_shared_samples and _draws(function, schema, args, options):
            raise self._refused(f"draws random numbers ({schema.name}), and ranks that share "
                                "activations cannot draw the same yet; set its dropout or noise "
                                "to 0")
        if self.shares.splits_batch and "batch_norm" in schema.name:
            given = _arguments(schema, args, options)
            rows = given.get("input")
            # A norm of each sample comes as one of a single sample with more channels.
            is_of_sample = (given.get("running_mean") is None and isinstance(rows, torch.Tensor)
                            and rows.shape[:1] == (1,))
            if given.get("training", True) and not is_of_sample:
                raise self._refused("takes statistics of the samples that it gets, which "
                                    "micro-batches and replicas would take of their own; replace "
                                    "it by a norm of single samples or tokens")

    def _begin(self, module: nn.Module, _: Any) -> None:
        self._running.append(module)

    def _end(self, *_: Any) -> None:
        self._running.pop()

    def _refused(self, why: str, module: nn.Module | None = None) -> Exception:
        found = module or (self._running[-1] if self._running else None)
        return refused(self._index, f"{name_of(found, self._names) if found else 'it'} {why}")


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call,unused-ignore]
    def __init__(self, watch: FirstPass) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self._watch = watch

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        options = kwargs or {}
        self._watch.check(function, args, options)
        return function(*args, **options)


def _draws(function: Any, schema: Any, args: Any, options: dict[str, Any]) -> bool:
    """Returns whether an operator draws random numbers. Attention says how many it drops."""
    if any(argument.name == "dropout_p" for argument in schema.arguments):
        return bool(_arguments(schema, args, options)["dropout_p"] > 0)
    return torch.Tag.nondeterministic_seeded in function.tags


def _arguments(schema: Any, args: Any, options: dict[str, Any]) -> dict[str, Any]:
    found = {argument.name: argument.default_value for argument in schema.arguments}
    found.update({argument.name: value for argument, value in zip(schema.arguments, args)})
    return {**found, **options}


def _version(buffer: torch.Tensor) -> int:
    return 0 if buffer.is_inference() else buffer._version

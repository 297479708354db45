"""Measurements of every layer of a model under one runtime."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from parplan.errors import Error, SpecInvalid, field_error
from parplan.torch.measure.collectives import Prices
from parplan.torch.measure.compiled import compile_layers
from parplan.torch.measure.durations import text_of
from parplan.torch.measure.kept import KeptBytes, kept_by_one, measure_kept
from parplan.torch.measure.masters import COPIED, type_of, with_masters
from parplan.torch.measure.models import LayerKind, Model
from parplan.torch.measure.passes import LONG, Pass, PassTimes, measure_passes
from parplan.torch.measure.recompute import OperatorCheckpoint, with_policy
from parplan.torch.measure.request import COMPILED, EAGER, Measured, Request
from parplan.torch.measure.splits import SplitLayers, local_count
from parplan.torch.measure.steady import Bench
from parplan.torch.measure.traffic import Message, summed, traffic_of

_TABLES = ("LAYER_KIND_EMBEDDING", "LAYER_KIND_PATCH_EMBEDDING", "LAYER_KIND_HEAD")
# Policies that replace the attention of a layer, which is not possible in a compiled layer.
_EAGER_POLICIES = ("selective",)


@dataclasses.dataclass(frozen=True)
class _Layer:
    """A layer to measure and its names in the profile."""
    kind: LayerKind
    names: Sequence[str]
    is_table: bool
    # Whether the loss follows it.
    is_last: bool


class LayerMeasurement:
    """Measures the layers of a model; all ranks of the job at the same time."""

    def __init__(self, model: Model, ids: Sequence[str], definitions: Mapping[str, Any],
                 request: Request, bench: Bench, runtime: str, begin: Callable[[str], None],
                 prices: Prices | None = None) -> None:
        """`ids` has the definition of each layer, as JSON in `definitions`. `begin` is told of each
        layer. `prices` are those of the messages that split layers send, None if they send none."""
        self._prices = prices
        self._request, self._bench, self._runtime, self._begin = request, bench, runtime, begin
        self._definitions = definitions
        self._layers = []
        for kind in model.kinds:
            names = list(dict.fromkeys(ids[index] for index in kind.indices))
            self._layers.append(_Layer(
                kind, names, definitions[names[0]].get("kind") in _TABLES,
                len(ids) - 1 in kind.indices))
        self._timed: set[tuple[str, int]] = set()
        self.measured = Measured()

    def run(self, makers: Sequence[SplitLayers]) -> Measured:
        """Measures each layer in the ways of `makers`. A layer that cannot be split in one of them
        is left out there, with a note. Raises the error of the first layer if none can."""
        for maker in makers:
            errors: list[Error] = []
            for layer in self._layers:
                self._begin(f"{layer.names[0]} on {maker.split}")
                try:
                    self._check(layer, maker)
                    self._measure(layer, maker)
                except SpecInvalid as error:
                    if maker.split.degree == 1:
                        raise
                    errors.append(error)
                    self._note(layer, maker, f"was left out: {error.message}")
            if len(errors) == len(self._layers):
                raise errors[0]
        if self._runtime == EAGER and any(type_of(layer.kind.module) in COPIED
                                          for layer in self._layers):
            self.measured.notes.append(
                "layers were timed with parameters of 32 bits, of which each pass makes copies of "
                "16 bits, as jobs train them")
        return self.measured

    def _check(self, layer: _Layer, maker: SplitLayers) -> None:
        degree = maker.split.degree
        for name in layer.names:
            for field in ("attention_head_count", "key_value_head_count"):
                count = int(self._definitions[name].get(field, 0))
                if count % degree:
                    raise field_error("SPEC_INVALID", f"{name}.{field}",
                                      f"{count} cannot be shared by {degree} ranks")

    def _measure(self, layer: _Layer, maker: SplitLayers) -> None:
        kind = maker.kind_of(layer.kind)
        modules = maker.make(layer.kind, LONG if kind.is_chainable else 1)
        degree = maker.split.degree
        if degree > 1:
            self._try(layer, kind, modules, maker)
        if self._runtime == COMPILED:
            compile_layers(modules, len(self._request.micro_batch_sizes))
        if not any((name, degree) in self._timed for name in layer.names):
            self._time(layer, kind, modules, maker)
        # Many samples share the tensors that do not grow with them, such as rotations.
        samples = max(self._request.micro_batch_sizes)
        kept = measure_kept(modules, kind, samples, self._bench.device, layer.is_last,
                            ("none", "full"), degree == 1 and self._runtime == EAGER)
        self._add_memory(layer, maker, modules, kept)
        for policy in self._policies(layer, maker):
            try:
                self._measure_policy(layer, kind, modules, maker, policy,
                                     kept.by_policy["none"])
            except SpecInvalid as error:
                self._note(layer, maker, f"recomputation {policy} was left out: {error.message}")
        if degree > 1 and self._runtime == EAGER:
            self._add_traffic(layer, kind, modules, maker)

    def _try(self, layer: _Layer, kind: LayerKind, modules: Sequence[nn.Module],
             maker: SplitLayers) -> None:
        """Raises SpecInvalid for a layer that cannot be called with a part of its matrices, which
        is so on all ranks."""
        once = Pass(modules[:1], kind, 1, self._bench.device.place, layer.is_last)
        try:
            once.forward()
            once.backward()
        except (RuntimeError, TypeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise field_error("SPEC_INVALID", f"layer {kind.indices[0]}",
                              f"cannot run on {maker.split}: {reason}") from None

    def _policies(self, layer: _Layer, maker: SplitLayers) -> list[str]:
        """Returns the policies to time, without those that the layer cannot have."""
        if layer.is_table:
            return []
        wanted = [one for one in self._request.policies if one != "none"]
        if self._runtime == COMPILED:
            wanted = [one for one in wanted if one not in _EAGER_POLICIES]
        calls_attention = any(int(self._definitions[name].get("attention_head_count", 0))
                              for name in layer.names)
        if "selective" in wanted and not calls_attention:
            wanted.remove("selective")
            self._note(layer, maker, "has no attention that selective recomputation would repeat")
        return wanted

    def _time(self, layer: _Layer, kind: LayerKind, modules: Sequence[nn.Module],
              maker: SplitLayers) -> None:
        for samples, times in self._passes(layer, kind, modules, maker).items():
            if times.note:
                self._note(layer, maker, f"{samples} samples: {times.note}")
            for name in layer.names:
                self._timed.add((name, maker.split.degree))
                self.measured.timings.append({
                    "layer_definition_id": name,
                    "tensor_parallel_degree": maker.split.degree, "micro_batch_size": samples,
                    "forward_duration": text_of(times.forward.median),
                    "backward_duration": text_of(times.backward.median),
                    "forward_duration_p90": text_of(times.forward.p90),
                    "sample_count": times.forward.count,
                    "origin": "ORIGIN_DERIVED" if kind.is_chainable else "ORIGIN_MEASURED"})

    def _passes(self, layer: _Layer, kind: LayerKind, modules: Sequence[nn.Module],
                maker: SplitLayers, policy: str = "none") -> dict[int, PassTimes]:
        """Times passes by the number of samples. Layers of 16 bits are timed as `apply` trains
        them, which does not compile them."""
        with contextlib.ExitStack() as stack:
            timed = modules
            if self._runtime == EAGER:
                timed = stack.enter_context(with_masters(modules))
                timed = [with_policy(one, policy, kind) for one in timed]
            found = measure_passes(timed, kind, self._request.micro_batch_sizes, self._bench,
                                   layer.is_last)
            if self._prices is None or maker.split.degree == 1:
                return found
            return {samples: self._without_messages(times, maker.split.degree, traffic_of(
                        timed, kind, samples, self._bench.device.place, layer.is_last))
                    for samples, times in found.items()}

    def _without_messages(self, times: PassTimes, degree: int,
                          passes: tuple[Sequence[Message], Sequence[Message]]) -> PassTimes:
        """Returns what is left of the times of a layer without the prices of its messages, which
        planners add."""
        assert self._prices is not None
        left = []
        for spread, messages in zip((times.forward, times.backward), passes):
            price = sum(self._prices.seconds(one.collective, degree, one.size)
                        for one in messages)
            left.append(dataclasses.replace(spread, median=max(spread.median - price, 1e-9),
                                            p90=max(spread.p90 - price, 1e-9)))
        return PassTimes(left[0], left[1], times.note)

    def _add_memory(self, layer: _Layer, maker: SplitLayers, modules: Sequence[nn.Module],
                    kept: KeptBytes) -> None:
        # Beside a layer alone, the allocator has its output, which the next layer keeps.
        if layer.kind.is_chainable and kept.differs:
            self._note(layer, maker, f"keeps {kept.by_policy['none']} bytes by saved tensors and "
                       f"{kept.allocated} by the allocator or MemTracker")
        for name in layer.names:
            self.measured.memories.append({
                "layer_definition_id": name, "tensor_parallel_degree": maker.split.degree,
                "sequence_parallel": maker.split.sequence_parallel,
                "parameter_count": str(local_count(modules[0])),
                "activation_bytes_per_sample": str(kept.by_policy["none"]),
                "checkpoint_bytes_per_sample": str(kept.by_policy["full"]),
                "origin": "ORIGIN_MEASURED"})

    def _measure_policy(self, layer: _Layer, kind: LayerKind, modules: Sequence[nn.Module],
                        maker: SplitLayers, policy: str, kept_without: int) -> None:
        if self._runtime == COMPILED and policy == "selective-op":
            # A policy for operators has to be within what is compiled.
            wrapped: list[nn.Module] = [OperatorCheckpoint(one, remembers=False)
                                        for one in maker.make(layer.kind, len(modules))]
            compile_layers(wrapped, len(self._request.micro_batch_sizes), forgets=False)
        else:
            wrapped = [with_policy(one, policy, kind) for one in modules]
        times_by_samples = self._passes(layer, kind,
                                        modules if self._runtime == EAGER else wrapped, maker,
                                        policy)
        largest = max(self._request.micro_batch_sizes)
        kept = kept_by_one(wrapped, kind, largest, self._bench.device, layer.is_last)
        for samples, times in times_by_samples.items():
            for name in layer.names:
                self.measured.recomputations.append({
                    "runtime_id": self._runtime, "layer_definition_id": name,
                    "tensor_parallel_degree": maker.split.degree,
                    "sequence_parallel": maker.split.sequence_parallel, "policy": policy,
                    "kept_bytes_per_sample": kept,
                    "kept_bytes_per_sample_without": kept_without,
                    "micro_batch_size": samples,
                    "forward_seconds": times.forward.median,
                    "backward_seconds": times.backward.median,
                    "note": times.note})
            if samples == max(self._request.micro_batch_sizes):
                self._note(layer, maker, f"with recomputation {policy} a sample keeps "
                           f"{kept} bytes, and of {samples} samples the forward "
                           f"pass takes {times.forward.median:.3g} s and the backward pass "
                           f"{times.backward.median:.3g} s")

    def _add_traffic(self, layer: _Layer, kind: LayerKind, modules: Sequence[nn.Module],
                     maker: SplitLayers) -> None:
        passes = traffic_of(modules, kind, 1, self._bench.device.place, layer.is_last)
        for direction, messages in zip(("forward", "backward"), passes):
            for collective, (count, size) in summed(messages).items():
                for name in layer.names:
                    self.measured.layer_collectives.append({
                        "layer_definition_id": name,
                        "tensor_parallel_degree": maker.split.degree,
                        "sequence_parallel": maker.split.sequence_parallel, "pass": direction,
                        "collective": collective, "count": count, "bytes_per_sample": size})

    def _note(self, layer: _Layer, maker: SplitLayers, text: str) -> None:
        self.measured.notes.append(f"{layer.names[0]} on {maker.split}: {text}")

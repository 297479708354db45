"""Models that `parplan-torch check` makes by name, some of which plant a fault where they are
made: in every rank, and not in the one process that they are compared with."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch_jobs as jobs
from torch import nn

from parplan.torch import data_parallel, reshard


class Block(nn.Module):
    """A decoder of any size."""

    def __init__(self, hidden: int, heads: int, width: int) -> None:
        super().__init__()
        self.token_positions: torch.Tensor | None = None
        self.heads = hidden // heads
        self.first_norm, self.second_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = Attention(hidden, self.heads)
        self.up, self.down = nn.Linear(hidden, width), nn.Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first_norm(x), self.token_positions)
        return x + self.down(nn.functional.gelu(self.up(self.second_norm(x))))


class Attention(nn.Module):
    def __init__(self, hidden: int, head_size: int) -> None:
        super().__init__()
        self.head_size = head_size
        # The gradient of the keys' bias is rounding alone.
        self.query, self.key, self.value, self.out = (nn.Linear(hidden, hidden) for _ in range(4))

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        def heads(rows: torch.Tensor) -> torch.Tensor:
            return rows.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

        query = heads(self.query(x))
        places = torch.arange(query.shape[2]) if positions is None else positions
        query = query * torch.cos(places * 0.3).unsqueeze(-1).to(query.dtype)
        mixed = nn.functional.scaled_dot_product_attention(
            query, heads(self.key(x)), heads(self.value(x)), is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Head(nn.Module):
    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.projection = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(self.norm(x))


def plain(spec: object) -> nn.Module:
    """Returns modules of the sizes of a ModelSpec: an embedding, decoders and a head."""
    definitions = {one.layer_definition_id: one for one in spec.layer_definitions}
    layers = []
    for run in spec.layer_runs:
        one = definitions[run.layer_definition_id]
        for _ in range(run.layer_count):
            if one.vocabulary_size and not layers:
                layers.append(nn.Embedding(one.vocabulary_size, one.hidden_size))
            elif one.vocabulary_size:
                layers.append(Head(one.hidden_size, one.vocabulary_size))
                if one.tied_embedding:
                    layers[-1].projection.weight = layers[0].weight
            else:
                layers.append(Block(one.hidden_size, one.attention_head_count,
                                    one.feed_forward_size))
    return nn.Sequential(*layers)


class Core(nn.Module):
    """A model that is no nn.Sequential: its class says how its parts are called."""

    def __init__(self, parts: list[nn.Module]) -> None:
        super().__init__()
        self.tokens, *blocks, head = parts
        self.blocks = nn.ModuleDict({str(place): one for place, one in enumerate(blocks)})
        self.norm, self.output = head.norm, head.projection

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(ids)
        for block in self.blocks.values():
            hidden = block(hidden)
        return self.output(self.norm(hidden))


CORE_LAYERS = ("tokens", "blocks.*", "norm+output")


def core(spec: object) -> nn.Module:
    """Returns `plain` as a model of a class of its own, whose layers have names."""
    return Core(list(plain(spec)))


def whole_core() -> nn.Module:
    """Returns such a model that knows no other size."""
    return Core(list(jobs.plain_model(7, False)))


class Silent(Core):
    """A model whose layers are called by others, as that of examples/train_loop.py."""
    forward = nn.Module.forward


def silent(spec: object) -> nn.Module:
    return Silent(list(plain(spec)))


def frames(spec: object) -> nn.Module:
    """Returns modules that begin with a map of frames instead of a table of tokens."""
    model = plain(spec)
    first = spec.layer_definitions[0]
    model[0] = nn.Linear(first.vocabulary_size, first.hidden_size)
    return model


def frames_and_words(spec: object, sample_count: int,
                     seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns inputs of `frames` and a word for each of them."""
    first, *_, last = spec.layer_definitions
    generator = torch.Generator().manual_seed(seed)
    shape = (sample_count, first.sequence_length)
    return (torch.randn(*shape, first.vocabulary_size, generator=generator),
            torch.randint(0, last.vocabulary_size, shape, generator=generator))


def one_sample_less(spec: object, sample_count: int,
                    seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return frames_and_words(spec, sample_count - 1, seed)


def whole(layer_count: int = 6) -> nn.Module:
    """Returns a model that knows no other size."""
    return jobs.plain_model(layer_count, False)


def average_instead_of_adding_up(spec: object) -> nn.Module:
    """Layers side by side with other data-parallel degrees each average over their own group."""
    def finish(self, done, real=data_parallel.LayerGradients.finish):
        real(self, done)
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                data_parallel.local_of(parameter.grad).div_(self._strategy.gradient_degree)

    if dist.is_initialized():
        data_parallel.LayerGradients.finish = finish
    return plain(spec)


def forget_partial_gradients(spec: object) -> nn.Module:
    """Gradients of norms stay those of a rank's own tokens."""
    def init(self, module, strategy, gradient, tensor, partial,
             real=data_parallel.LayerGradients.__init__, **options):
        real(self, module, strategy, gradient, tensor, set(), **options)

    if dist.is_initialized():
        data_parallel.LayerGradients.__init__ = init
    return plain(spec)


def move_no_gradients(spec: object) -> nn.Module:
    """Gradients stop where the layout changes."""
    def backward(ctx, gradient):
        return torch.zeros_like(ctx.direction.run(gradient)), None, None

    if dist.is_initialized():
        reshard._Moved.backward = staticmethod(backward)
    return plain(spec)


def add_up_twice(spec: object) -> nn.Module:
    """Every gradient is added up over an empty message once more: right numbers, another
    collective."""
    def add_up(gradients, group, real=data_parallel._add_up):
        real(gradients, group)
        dist.all_reduce(torch.zeros(1 << 20), group=group)

    if dist.is_initialized():
        data_parallel._add_up = add_up
    return plain(spec)


def broadcast_gradients(spec: object) -> nn.Module:
    """The first rank of a group sends summed gradients to the others once more: a collective that no
    plan has."""
    def add_up(gradients, group, real=data_parallel._add_up):
        real(gradients, group)
        dist.broadcast(gradients[0], group=group, group_src=0)

    if dist.is_initialized():
        data_parallel._add_up = add_up
    return plain(spec)


def crash(spec: object) -> nn.Module:
    """One rank ends in the middle of the job."""
    if dist.is_initialized() and dist.get_rank() == 1:
        raise RuntimeError("planted")
    return plain(spec)

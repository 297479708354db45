"""Trains a decoder of plain modules in a loop as torchtitan's: batches from a data loader, warm-up
and decay of the learning rate, clipping, bf16, checkpoints that a later job goes on from, also
under another plan, and metrics.

    torchrun --nproc-per-node 8 train_loop.py --plan plan.dsse.json \\
        --trust trust-bundle.jwks.json --model model.json --topology cluster.json \\
        --steps 100 --checkpoint-every 50 --folder checkpoints --report-to planner:9477
"""

import argparse
import functools
import math
import pathlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import parplan
import parplan.torch


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False)
                                              for _ in range(4))
        self.head_size = width // heads

    def forward(self, x, angles):
        def heads(rows):
            return rows.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

        query, key = (rotate(heads(matrix(x)), angles) for matrix in (self.wq, self.wk))
        mixed = F.scaled_dot_product_attention(query, key, heads(self.wv(x)), is_causal=True)
        return self.wo(mixed.transpose(1, 2).flatten(2))


def rotate(rows, angles):
    """Turns pairs of numbers by angles that depend on where a token is."""
    first, second = rows.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1).to(rows.dtype)


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width, inner)
        self.attention_norm, self.ffn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        # Numbers of the tokens that this rank attends from; `apply` sets them.
        self.token_positions = None

    def forward(self, x):
        size = self.attention.head_size
        places = (torch.arange(x.shape[1], device=x.device) if self.token_positions is None
                  else self.token_positions)
        speeds = 10000 ** -(torch.arange(0, size, 2, device=x.device) / size)
        x = x + self.attention(self.attention_norm(x), places[:, None] * speeds)
        return x + self.feed_forward(self.ffn_norm(x))


class Output(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.output(self.norm(x))


class Transformer(nn.Module):
    """A decoder with the names of torchtitan's."""

    def __init__(self, spec):
        super().__init__()
        first, block = spec.layer_definitions[0], spec.layer_definitions[1]
        width = first.hidden_size
        self.tok_embeddings = nn.Embedding(first.vocabulary_size, width)
        count = sum(run.layer_count for run in spec.layer_runs) - 2
        self.layers = nn.ModuleDict({
            str(number): TransformerBlock(width, block.attention_head_count,
                                          block.feed_forward_size) for number in range(count)})
        self.head = Output(width, first.vocabulary_size)

    def in_order(self):
        return [self.tok_embeddings, *self.layers.values(), self.head]


TENSOR_PLAN = {
    **{f"layers.*.attention.{name}": "colwise" for name in ("wq", "wk", "wv")},
    "layers.*.attention.wo": "rowwise", "layers.*.feed_forward.w1": "colwise",
    "layers.*.feed_forward.w3": "colwise", "layers.*.feed_forward.w2": "rowwise",
    "head.output": "colwise_gather_output"}


class Text(Dataset):
    """Sequences that count upwards, to be replaced by those of a corpus."""

    def __init__(self, vocabulary, tokens):
        self.vocabulary, self.tokens = vocabulary, tokens

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        tokens = (torch.arange(self.tokens + 1) + index * 31) % self.vocabulary
        return tokens[:-1], tokens[1:]


def rate(step, *, warm_up, steps):
    """Learning rate in parts of the highest: linear warm-up, then a cosine."""
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def loss_fn(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def newest(folder):
    """Returns the last step with a checkpoint, or 0."""
    return max((int(one.name.removeprefix("step-")) for one in folder.glob("step-*")
                if (one / ".metadata").exists()), default=0)


def main():
    parser = argparse.ArgumentParser()
    for name in ("plan", "trust", "model", "topology"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--job", default="")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--checkpoint-every", type=int, default=50)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--report-to")
    flags = parser.parse_args()
    plan = parplan.Plan.load_files(flags.plan, flags.trust, flags.model, flags.topology,
                                   job_id=flags.job)
    dist.init_process_group()
    with torch.device("meta"):
        model = Transformer(plan.model)
    schedule = functools.partial(torch.optim.lr_scheduler.LambdaLR, lr_lambda=functools.partial(
        rate, warm_up=flags.warm_up, steps=flags.steps))
    run = parplan.torch.apply(
        plan, model, loss_fn, layers=model.in_order(), tensor_plan=TENSOR_PLAN,
        optimizer=functools.partial(torch.optim.AdamW, lr=flags.learning_rate, betas=(0.9, 0.95)),
        schedule=schedule, max_gradient_norm=1.0, precision=flags.precision, seed=1,
        report_to=flags.report_to)
    first = newest(flags.folder)
    if first:
        run.load(flags.folder / f"step-{first}")
    tokens = plan.model.layer_definitions[0].sequence_length
    data = iter(DataLoader(Text(model.tok_embeddings.num_embeddings, tokens),
                           batch_size=plan.global_batch_size, sampler=range(
                               first * plan.global_batch_size, 1 << 20)))
    with run:
        for step in range(first + 1, flags.steps + 1):
            begin = time.perf_counter()
            loss = run.step(*next(data)).item()
            seconds = time.perf_counter() - begin
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss:.4f} "
                      f"rate {run.optimizers[0].param_groups[0]['lr']:.2e} "
                      f"tokens/s {plan.global_batch_size * tokens / seconds:.0f}", flush=True)
            if step % flags.checkpoint_every == 0 or step == flags.steps:
                run.save(flags.folder / f"step-{step}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

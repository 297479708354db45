#!/usr/bin/python3
"""Maps the plan of capi_test.cc to a torch that only remembers what it is asked for.

  torch_mapping_test.py LIBRARY FOLDER
"""

import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import parplan_executor as parplan  # noqa: E402
from parplan_executor import torch_mapping  # noqa: E402
from parplan_executor.library import Recompute, Sharding  # noqa: E402

LIBRARY, FOLDER = sys.argv[1:3]


class FakeTorch:
    """Modules under torch's names, for as long as a test runs."""

    def __init__(self, world_size):
        self.made = []

        def new_group(ranks):
            self.made.append(tuple(ranks))
            return ("group", tuple(ranks))

        def wrapper(name):
            return lambda module, **options: (name, module, options)

        modules = {
            "torch": {},
            "torch.distributed": {"new_group": new_group, "get_world_size": lambda: world_size},
            "torch.distributed.algorithms": {},
            "torch.distributed.algorithms._checkpoint": {},
            "torch.distributed.algorithms._checkpoint.checkpoint_wrapper": {
                "checkpoint_wrapper": wrapper("checkpoint"),
                "CheckpointImpl": types.SimpleNamespace(NO_REENTRANT="no-reentrant")},
            "torch.distributed.fsdp": {
                "FullyShardedDataParallel": wrapper("fsdp"),
                "ShardingStrategy": types.SimpleNamespace(FULL_SHARD="full",
                                                          SHARD_GRAD_OP="gradients")},
            "torch.nn": {},
            "torch.nn.parallel": {"DistributedDataParallel": wrapper("ddp")},
        }
        self._names = list(modules)
        for name, members in modules.items():
            module = types.ModuleType(name)
            module.__path__ = []
            vars(module).update(members)
            sys.modules[name] = module
        for name in modules:
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, sys.modules[name])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self._names:
            del sys.modules[name]


def read(name):
    return pathlib.Path(FOLDER, name).read_bytes()


def load(envelope="envelope.json", **options):
    return parplan.Plan(parplan.load_library(LIBRARY), read(envelope), read("trust.json"),
                        read("model.json"), read("topology.json"), **options)


class LibraryTest(unittest.TestCase):
    def test_refuses_what_was_changed(self):
        with self.assertRaises(parplan.Refused) as raised:
            load("changed.json")
        self.assertEqual(raised.exception.reason, "SIGNATURE_INVALID")
        with self.assertRaises(parplan.Refused):
            load(node_name="elsewhere")

    def test_lists_plan_layers_and_passes(self):
        plan = load()
        self.assertEqual(plan.name, "clusters/tests/plans/capi")
        self.assertEqual((plan.device_count, plan.layer_count), (4, 4))
        self.assertEqual(plan.predicted_step_seconds, 0.25)
        layer = plan.layer(1)
        self.assertEqual((layer.data_parallel_degree, layer.sharding, layer.recompute),
                         (2, Sharding.PARAMETERS, Recompute.NONE))
        self.assertTrue(plan.layer(2).sequence_parallel)
        with self.assertRaises(parplan.Error):
            plan.layer(4)
        passes = plan.rank(0).passes()
        # 1F1B of two stages: the first has one more forward pass at the beginning.
        self.assertEqual([one.is_backward for one in passes],
                         [False, False, True, False, True, False, True, True])

    def test_a_rank_keeps_its_plan(self):
        rank = load().rank(3)
        self.assertEqual(rank.layer_groups(2).tensor, parplan.Group("tensor", (2, 3)))
        self.assertIsNone(rank.layer_groups(2).gradient)
        with self.assertRaises(parplan.Error):
            rank.layer_groups(0)


class TorchTest(unittest.TestCase):
    def test_every_rank_makes_all_groups_in_one_order(self):
        plan = load()
        orders = []
        for _ in range(2):
            with FakeTorch(4) as torch:
                groups = torch_mapping.make_groups(plan)
                orders.append(torch.made)
        self.assertEqual(orders[0], orders[1])
        self.assertEqual(orders[0], [group.ranks for group in plan.groups()])
        for rank in range(4):
            for group in plan.rank(rank).groups():
                self.assertIn(group, groups)

    def test_a_job_of_another_size_is_refused(self):
        with FakeTorch(8), self.assertRaises(parplan.Error):
            torch_mapping.make_groups(load())

    def test_layers_are_wrapped_as_the_plan_says(self):
        plan = load()
        with FakeTorch(4):
            groups = torch_mapping.make_groups(plan)
            first = plan.rank(0)
            self.assertEqual(torch_mapping.local_layers(plan, first), [0, 1])
            # Tensor-parallel only: nothing to wrap.
            self.assertEqual(torch_mapping.wrap_layer("m", plan, first, 0, groups), "m")
            self.assertEqual(
                torch_mapping.wrap_layer("m", plan, first, 1, groups),
                ("fsdp", "m", {"process_group": ("group", (0, 1)), "sharding_strategy": "full",
                               "use_orig_params": True}))
            last = plan.rank(3)
            self.assertEqual(torch_mapping.local_layers(plan, last), [2, 3])
            self.assertEqual(torch_mapping.wrap_layer("m", plan, last, 3, groups),
                             ("ddp", "m", {"process_group": ("group", (2, 3))}))
            self.assertFalse(torch_mapping.needs_sharded_optimizer(plan, 1))

    def test_gradients_of_other_numbers_of_replicas_have_a_scale(self):
        plan = load()
        replicas = [plan.layer(index).data_parallel_degree for index in range(plan.layer_count)]
        self.assertEqual(replicas, [1, 2, 1, 2])
        self.assertEqual([torch_mapping.gradient_scale(plan, index) for index in range(4)],
                         [1.0, 0.5, 2.0, 0.5])

    def test_fsdp_gets_the_device(self):
        plan = load()
        with FakeTorch(4):
            groups = torch_mapping.make_groups(plan)
            _, _, options = torch_mapping.wrap_layer("m", plan, plan.rank(0), 1, groups, "cpu")
        self.assertEqual(options["device_id"], "cpu")

    def test_recomputation_is_inside(self):
        plan = load("recomputed.json")
        with FakeTorch(4):
            groups = torch_mapping.make_groups(plan)
            name, inner, _ = torch_mapping.wrap_layer("m", plan, plan.rank(1), 1, groups)
            self.assertEqual(name, "ddp")
            self.assertEqual(inner, ("checkpoint", "m", {"checkpoint_impl": "no-reentrant"}))
        self.assertTrue(torch_mapping.needs_sharded_optimizer(plan, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""The collectives of a step that Python lists are those that the cost model prices: the program
plan_files wrote what C++ lists for every plan of the executor's tests."""

import collections
import json

import parplan
from parplan import traffic


def listed(plan, rank):
    """Returns the calls of a rank by purpose, kind and group, as C++ counts them: a message is one
    call on either side, and a hop round a ring is one call of all its ranks."""
    found = collections.Counter()
    for one in traffic.traffic_of(plan, rank):
        for kind, count in one.priced.items():
            if one.ring:
                found[one.purpose, "send-receive", one.ring] += count * (kind == traffic.SEND)
                continue
            name = "send-receive" if kind in (traffic.SEND, traffic.RECEIVE) else kind
            found[one.purpose, name, one.ranks] += count
    return found


def test_python_lists_what_cpp_prices(plan_folder):
    purposes = collections.Counter()
    folders = sorted(path for path in plan_folder.iterdir() if path.is_dir())
    assert len(folders) > 240
    for folder in folders:
        plan = parplan.Plan.load_files(folder / "envelope.json", plan_folder / "trust.json",
                                       folder / "model.json", folder / "topology.json")
        priced = json.loads((folder / "collectives.json").read_text())
        assert len(priced) == plan.device_count
        for rank, rows in enumerate(priced):
            expected = collections.Counter({(purpose, kind, tuple(ranks)): count
                                            for purpose, kind, ranks, count in rows})
            assert listed(plan, rank) == expected, (folder.name, rank)
            purposes.update(key[0] for key in expected)
    assert set(purposes) == {"tensor", "context", "gradient", "gradients of norms",
                             "change of layout", "pipeline", "tied table", "loss"}

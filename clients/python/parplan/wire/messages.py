"""The messages of `parplan.v1`, made from the contract's descriptor set.

No generated code: the classes fit the installed protobuf, whatever its release, and live in a pool
of their own, so that a process may hold other copies of the same messages.

    from parplan.wire import messages
    spec = messages.PlanSpec(global_batch_size=8)
    messages.enum_name("Schedule", 1)        # "SCHEDULE_ONE_FORWARD_ONE_BACKWARD"
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "parplan.v1"


@functools.lru_cache(maxsize=None)
def pool() -> descriptor_pool.DescriptorPool:
    """Returns the pool with all files of the contract."""
    contract = importlib.resources.files("parplan").joinpath("contract.binpb").read_bytes()
    made = descriptor_pool.DescriptorPool()
    # Each file comes after those that it imports.
    for file in descriptor_pb2.FileDescriptorSet.FromString(contract).file:
        made.AddSerializedFile(file.SerializeToString())
    return made


@functools.lru_cache(maxsize=None)
def message_class(full_name: str) -> Any:
    """Returns the class of a message. KeyError if the contract has none of this name."""
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(full_name))


def service(name: str) -> Any:
    """Returns the descriptor of a service such as "PlanService"."""
    return pool().FindServiceByName(f"{PACKAGE}.{name}")


def enum_name(enum: str, value: int) -> str:
    """Returns the name of a value, or the number in digits if a later release added it."""
    found = pool().FindEnumTypeByName(f"{PACKAGE}.{enum}").values_by_number.get(value)
    return found.name if found is not None else str(value)


def __getattr__(name: str) -> Any:
    try:
        return message_class(f"{PACKAGE}.{name}")
    except KeyError:
        raise AttributeError(f"the contract has no message {name}") from None

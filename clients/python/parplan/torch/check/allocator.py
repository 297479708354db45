"""The memory that PyTorch's allocator of GPUs takes from the driver, for a list of allocations.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.6 to 2.15), for one stream:

- Sizes are rounded up to 512 bytes. Blocks of up to 1 MiB and larger ones have pools of their own.
- Of the free blocks of its pool an allocation takes the smallest that is large enough, at the
  lowest address, and gives back the rest as a free block: rests of 512 bytes or more in the pool of
  small blocks and with expandable segments, else rests of more than 1 MiB.
- Without such a block a segment comes from the driver: 2 MiB for small blocks, 20 MiB for blocks
  below 10 MiB, else the size rounded up to 2 MiB. With `expandable_segments:True` each pool is one
  range of addresses instead, at whose end 2 or 20 MiB are added as often as needed; what can still
  grow there counts as the largest of the free blocks.
- A freed block joins the free blocks beside it in its segment. Nothing goes back to the driver
  until an allocation fails, which is not simulated.

    allocator = CachingAllocator(expandable_segments=True)
    block = allocator.allocate(3 << 20)
    allocator.free(block)
    allocator.peak_reserved            # torch.cuda.max_memory_reserved()
"""

from __future__ import annotations

import bisect
import dataclasses

_KIBI, _MEBI = 1 << 10, 1 << 20
# kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge.
_SMALLEST = 512
_SMALL = _MEBI
_SMALL_SEGMENT, _LARGE_SEGMENT = 2 * _MEBI, 20 * _MEBI
_OWN_SEGMENT = 10 * _MEBI
_ROUNDING = 2 * _MEBI
# Segments lie so far apart that they have no neighbours.
_GAP = _KIBI


@dataclasses.dataclass
class _Block:
    size: int
    is_small: bool
    is_free: bool = True
    # Addresses of the neighbours in the same segment.
    before: int | None = None
    behind: int | None = None


class CachingAllocator:
    """The blocks of one GPU. Blocks are named by their addresses. Used by one thread."""

    def __init__(self, expandable_segments: bool = False) -> None:
        self._expands = expandable_segments
        self._blocks: dict[int, _Block] = {}
        # Sizes and addresses of free blocks by whether they are small, in order.
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        # The last block of each range that grows; None before the first.
        self._last: dict[bool, int | None] = {True: None, False: None}
        # The next segment begins here. A range that grows has addresses of its own.
        self._end = {True: 0, False: 0 if not expandable_segments else 1 << 60}
        self.allocated = self.peak_allocated = 0
        self.reserved = self.peak_reserved = 0

    def allocate(self, size: int) -> int:
        """Returns a block of `size` bytes, at least 1."""
        size = -(-size // _SMALLEST) * _SMALLEST
        is_small = size <= _SMALL
        address = self._fitting(size, is_small)
        if address is None:
            address = self._add_memory(size, is_small)
        block = self._blocks[address]
        self._leave(address)
        block.is_free = False
        rest = block.size - size
        if rest >= _SMALLEST if is_small or self._expands else rest > _SMALL:
            self._split(address, size)
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return address

    def free(self, address: int) -> None:
        """Frees a block of `allocate`."""
        block = self._blocks[address]
        assert not block.is_free
        self.allocated -= block.size
        block.is_free = True
        if block.behind is not None and self._blocks[block.behind].is_free:
            self._leave(block.behind)
            self._join(address)
        if block.before is not None and self._blocks[block.before].is_free:
            address = block.before
            self._leave(address)
            self._join(address)
        self._enter(address)

    def _fitting(self, size: int, is_small: bool) -> int | None:
        free = self._free[is_small]
        place = bisect.bisect_left(free, (size, -1))
        if place == len(free):
            return None
        if free[place][1] == self._last[is_small] and place + 1 < len(free):
            # The last block of a range could still grow, so any other fits better.
            place += 1
        return free[place][1]

    def _add_memory(self, size: int, is_small: bool) -> int:
        """Returns a free block that is large enough, in memory from the driver."""
        last = self._last[is_small] if self._expands else None
        there = 0 if last is None or not self._blocks[last].is_free else self._blocks[last].size
        if self._expands:
            unit = _SMALL_SEGMENT if is_small else _LARGE_SEGMENT
            added = -(-(size - there) // unit) * unit
        elif is_small:
            added = _SMALL_SEGMENT
        elif size < _OWN_SEGMENT:
            added = _LARGE_SEGMENT
        else:
            added = -(-size // _ROUNDING) * _ROUNDING
        self.reserved += added
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        # Without ranges that grow both pools take their addresses from one place.
        pool = is_small if self._expands else True
        address = self._end[pool]
        self._end[pool] += added + (0 if self._expands else _GAP)
        if last is not None and there > 0:
            self._leave(last)
            self._blocks[last].size += added
            self._enter(last)
            return last
        self._blocks[address] = _Block(added, is_small, before=last)
        if last is not None:
            self._blocks[last].behind = address
        if self._expands:
            self._last[is_small] = address
        self._enter(address)
        return address

    def _split(self, address: int, size: int) -> None:
        """Makes a free block of all behind the first `size` bytes of a block."""
        block = self._blocks[address]
        rest = address + size
        self._blocks[rest] = _Block(block.size - size, block.is_small, before=address,
                                    behind=block.behind)
        self._set_before(block.behind, rest, block.is_small)
        block.size, block.behind = size, rest
        self._enter(rest)

    def _join(self, address: int) -> None:
        """Adds the next block to this one. Neither is in the list of free blocks."""
        block = self._blocks[address]
        assert block.behind is not None
        other = self._blocks.pop(block.behind)
        block.size += other.size
        block.behind = other.behind
        self._set_before(other.behind, address, block.is_small)

    def _set_before(self, behind: int | None, address: int, is_small: bool) -> None:
        if behind is not None:
            self._blocks[behind].before = address
        elif self._expands:
            self._last[is_small] = address

    def _enter(self, address: int) -> None:
        block = self._blocks[address]
        bisect.insort(self._free[block.is_small], (block.size, address))

    def _leave(self, address: int) -> None:
        block = self._blocks[address]
        free = self._free[block.is_small]
        del free[bisect.bisect_left(free, (block.size, address))]

"""The allocator of GPUs by its rules: by hand, and beside one that looks at every byte range."""

import random

import pytest

from parplan.torch.check.allocator import CachingAllocator

MIB = 1 << 20


class Plain:
    """The same rules over a list of ranges in order of address: [segment, begin, end, is free]."""

    def __init__(self, expands):
        self.expands, self.reserved, self.segments = expands, 0, 0
        self.ranges = {True: [], False: []}

    def allocate(self, size):
        size = (size + 511) // 512 * 512
        is_small = size <= MIB
        ranges = self.ranges[is_small]
        fitting = [one for one in ranges if one[3] and one[2] - one[1] >= size]
        # The last block, which can grow, is larger than any request.
        fitting.sort(key=lambda one: (self.expands and one is ranges[-1], one[2] - one[1]))
        chosen = fitting[0] if fitting else self.grow(size, is_small)
        chosen[3] = False
        rest = chosen[2] - chosen[1] - size
        if rest >= 512 if is_small or self.expands else rest > MIB:
            ranges.insert(ranges.index(chosen) + 1,
                          [chosen[0], chosen[1] + size, chosen[2], True])
            chosen[2] = chosen[1] + size
        return is_small, chosen

    def grow(self, size, is_small):
        ranges = self.ranges[is_small]
        if self.expands:
            unit = 2 * MIB if is_small else 20 * MIB
            if not ranges:
                ranges.append(["all", 0, 0, True])
            if not ranges[-1][3]:
                ranges.append(["all", ranges[-1][2], ranges[-1][2], True])
            last = ranges[-1]
            while last[2] - last[1] < size:
                last[2] += unit
                self.reserved += unit
            return last
        added = (2 * MIB if is_small else 20 * MIB if size < 10 * MIB
                 else (size + 2 * MIB - 1) // (2 * MIB) * (2 * MIB))
        self.reserved += added
        self.segments += 1
        ranges.append([self.segments, 0, added, True])
        return ranges[-1]

    def free(self, block):
        is_small, freed = block
        freed[3] = True
        ranges = self.ranges[is_small]
        joined = []
        for one in ranges:
            if joined and joined[-1][3] and one[3] and joined[-1][0] == one[0]:
                joined[-1][2] = one[2]
            else:
                joined.append(one)
        self.ranges[is_small] = joined

    @property
    def allocated(self):
        return sum(one[2] - one[1] for ranges in self.ranges.values() for one in ranges
                   if not one[3])


@pytest.mark.parametrize("expands", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_random_sizes_take_what_the_rules_say(expands, seed):
    draw = random.Random(seed)
    sizes = [1, 512, 513, 100 * 1024, MIB - 1, MIB, MIB + 1, 3 * MIB, 10 * MIB - 1, 10 * MIB,
             21 * MIB + 5, 64 * MIB]
    ours, plain = CachingAllocator(expands), Plain(expands)
    held = []
    for _ in range(400):
        if held and draw.random() < 0.48:
            one, other = held.pop(draw.randrange(len(held)))
            ours.free(one)
            plain.free(other)
        else:
            size = max(1, draw.choice(sizes) - draw.choice((0, 0, 1000)))
            held.append((ours.allocate(size), plain.allocate(size)))
        assert (ours.reserved, ours.allocated) == (plain.reserved, plain.allocated)
        assert ours.allocated <= ours.reserved
    for one, _ in held:
        ours.free(one)
    assert ours.allocated == 0 and ours.reserved == ours.peak_reserved == plain.reserved


def test_segments_and_rounding_by_hand():
    allocator = CachingAllocator()
    small = allocator.allocate(1)
    assert (allocator.allocated, allocator.reserved) == (512, 2 * MIB)
    # The rest of a segment serves other small blocks, and none of more than 1 MiB.
    allocator.allocate(MIB)
    assert allocator.reserved == 2 * MIB
    allocator.allocate(MIB + 1)
    assert allocator.reserved == 22 * MIB
    # 21 MiB get a segment of their own, which is rounded up; a rest of 1 MiB is not split off.
    large = allocator.allocate(21 * MIB)
    assert allocator.reserved == 44 * MIB
    assert allocator.allocated == 512 + MIB + (MIB + 512) + 22 * MIB
    allocator.free(small)
    allocator.free(large)
    # A block of 22 MiB is free, and a rest of 2 MiB can be split off.
    allocator.allocate(20 * MIB)
    assert (allocator.allocated, allocator.reserved) == (MIB + MIB + 512 + 20 * MIB, 44 * MIB)


def test_free_neighbours_join_within_a_segment_alone():
    allocator = CachingAllocator()
    first, second = (allocator.allocate(16 * MIB) for _ in range(2))
    allocator.free(first)
    allocator.free(second)
    allocator.allocate(32 * MIB)
    assert allocator.reserved == 64 * MIB
    growing = CachingAllocator(expandable_segments=True)
    first, second = (growing.allocate(16 * MIB) for _ in range(2))
    assert growing.reserved == 40 * MIB
    growing.free(first)
    growing.free(second)
    growing.allocate(36 * MIB)
    assert growing.reserved == 40 * MIB


def test_a_hole_is_taken_before_the_end_that_can_grow():
    allocator = CachingAllocator(expandable_segments=True)
    first = allocator.allocate(12 * MIB)
    allocator.allocate(4 * MIB)
    allocator.free(first)
    # 4 MiB are left at the end, and a hole of 12 MiB is before it.
    allocator.allocate(3 * MIB)
    allocator.allocate(9 * MIB)
    assert allocator.reserved == 20 * MIB
    allocator.allocate(5 * MIB)
    assert allocator.reserved == 40 * MIB

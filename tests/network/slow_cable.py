"""Joins two network devices (TAP) of two network namespaces by a cable on which every frame takes
so many seconds: a system need not have the scheduler `netem` for it.

    slow_cable.py DESCRIPTOR SECONDS

The program begins in the second namespace, where it makes the device eth0, and has the descriptor
of the first device. The cable ends with the program.
"""
import collections
import fcntl
import os
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES = 1 << 16


def make_device(name):
    """Makes a TAP device in the network namespace of this process, and returns its descriptor."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def carry(first, second, seconds):
    """Carries frames both ways, in their order."""
    under_way = collections.deque()
    other = {first: second, second: first}
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for device in select.select(list(other), [], [], wait)[0]:
            try:
                under_way.append((time.monotonic() + seconds, other[device],
                                  os.read(device, FRAME_BYTES)))
            except OSError:
                # The device is down.
                time.sleep(0.001)
        while under_way and under_way[0][0] <= time.monotonic():
            _, device, frame = under_way.popleft()
            try:
                os.write(device, frame)
            except OSError:
                # A frame to a device that is down is lost, as on any cable.
                pass


if __name__ == "__main__":
    END = make_device("eth0")
    print("ready", flush=True)
    carry(int(sys.argv[1]), END, float(sys.argv[2]))

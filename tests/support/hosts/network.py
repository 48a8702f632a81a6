"""The network between the hosts: a bridge with the system's shaping, or a relay that adds latencies itself."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

from support.hosts.host import Host, address_of
from support.hosts.system import STATE, ClusterError, do

__all__ = ["Bridge", "Relay", "make_network"]

_MTU, _NETWORK = 9000, f"{address_of(0).rpartition('.')[0]}.0/24"
_BURST_SECONDS, _LEAST_BURST = 0.0005, 2 * _MTU  # tbf lets through that much at once
_QUEUE_SECONDS = 0.2
_TUNSETIFF, _TAP_WITHOUT_HEADER = 0x400454CA, 0x1002


class Bridge:
    """A switch of the kernel; each host's cable has ``rate`` (bytes per second, 0: no limit) and ``latency``."""

    def __init__(self, hosts: list[Host], latency: float, rate: float):
        do("ip link add br0 type bridge", "ip link set br0 up")
        for host in hosts:
            cable = f"cable{host.number}"
            do(f"ip link add {cable} mtu {_MTU} type veth peer name eth0 mtu {_MTU} netns {host.pid}")
            do(f"ip link set {cable} master br0", f"ip link set {cable} up")
            # At both ends: what leaves the host, and what arrives.
            for command in _shaping(latency, rate):
                do(f"tc qdisc add dev {cable} {command}")
                do(f"nsenter -t {host.pid} --net tc qdisc add dev eth0 {command}")
            _address(host)

    def set_link(self, host: Host, is_up: bool) -> None:
        do(f"ip link set cable{host.number} {'up' if is_up else 'down'}")


def _shaping(latency: float, rate: float) -> list[str]:
    """The queueing disciplines of one end: half of the latency each."""
    limit = _limit(rate) if rate else ""
    if not latency:
        return [f"root {limit}"] if limit else []
    delay = f"root handle 1: netem delay {latency * 5e5:.1f}us limit 100000"
    return [delay, f"parent 1: {limit}"] if limit else [delay]


def _limit(rate: float) -> str:
    """The queueing discipline of ``rate`` bytes per second."""
    burst = max(int(rate * _BURST_SECONDS), _LEAST_BURST)
    return f"tbf rate {int(rate * 8)}bit burst {burst}b latency {_QUEUE_SECONDS}s"


class Relay:
    """A program that passes frames from host to host, for kernels without netem.  Needs a compiler and /dev/net/tun."""

    def __init__(self, hosts: list[Host], latency: float, rate: float):
        compiler = shutil.which("cc")
        if compiler is None or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            raise ClusterError("--latency needs a kernel with netem, or a C compiler (cc) and /dev/net/tun")
        program = STATE / "relay"
        source = Path(__file__).with_name("relay.c")
        do(f"{compiler} -O2 -pthread -o {program} {source}")
        limit, ends = _limit(rate) if rate else "", []
        limits = limit and _has(limit)
        for host in hosts:
            end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", f"tap{host.number}".encode(), _TAP_WITHOUT_HEADER))
            # The relay finds a frame's target by the last byte of its address.
            do(f"ip link set tap{host.number} address 02:00:00:00:00:{host.number:02x} mtu {_MTU}")
            do(f"ip link set tap{host.number} netns {host.pid} name eth0")
            if limits:
                # To the system, what waits in the device is sent: one connection would fill its queue for 30 ms.
                do(f"nsenter -t {host.pid} --net tc qdisc add dev eth0 root {limit}")
            _address(host)
            ends.append(end)
        words = [str(each) for host, end in zip(hosts, ends) for each in (end, host.cores[-1])]
        self._process = subprocess.Popen(
            [program, str(round(latency * 1e9)), str(round(rate)), *words], stdin=subprocess.PIPE, pass_fds=ends
        )

    def set_link(self, host: Host, is_up: bool) -> None:
        self._process.stdin.write(f"{host.number} {int(is_up)}\n".encode())
        self._process.stdin.flush()


def make_network(hosts: list[Host], latency: float, rate: float) -> Bridge | Relay:
    names = [f"{address_of(host.number)} {host.name}" for host in hosts]
    (STATE / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names]) + "\n")
    if latency and not _has("netem delay 1us"):
        return Relay(hosts, latency, rate)
    return Bridge(hosts, latency, rate)


def _has(discipline: str) -> bool:
    """Whether the kernel has this queueing discipline."""
    tried = subprocess.run(f"tc qdisc add dev lo root {discipline}".split(), capture_output=True)
    if tried.returncode:
        return False
    do("tc qdisc del dev lo root")
    return True


def _address(host: Host) -> None:
    within = f"nsenter -t {host.pid} --net ip"
    address = address_of(host.number)
    do(f"{within} addr add {address}/24 dev eth0", f"{within} link set eth0 up", f"{within} link set lo up")
    # A system may be set to find the network's pace and to send at it (BBR): what it finds wanders for seconds, and
    # times with it, by a fourth.  Every system has Reno, which sends as long as nothing is lost.
    do(f"{within} route replace {_NETWORK} dev eth0 scope link src {address} congctl reno")

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.12 of the attack corpus: direct network, and A169.

No packet leaves this machine: addresses are loopback's, or belong to an interface of a network namespace the test makes
for itself, where even the metadata address is only a name of that interface."""

import contextlib
import pathlib
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import INSIDE, held, inside, mount, outside, timed  # noqa: E402
from harness import IS_ROOT, brig, main, scratch, test, uid  # noqa: E402
from listeners import METADATA, OTHERS, listening, own_network  # noqa: E402


def targets(addresses, port):
    return [w for a in addresses for kind in ("tcp", "udp") for w in (kind, a, str(port))]


@test
def a141_there_is_only_loopback_and_nothing_can_be_added():
    control = outside("network", "surroundings", user=0 if IS_ROOT else None, within=("unshare", "--net", "sh", "-c", 'ip link add d0 type veth peer name d1; ip link set d0 up; exec "$@"', "sh") if IS_ROOT else ())
    control.must_work("interface")
    inside("network", "surroundings").must_fail("surroundings", "lo-down", "new-link", "raw", "packet", "vsock", "ping", "lo-address")


@test(by_root=True)
def a141_to_a145_no_address_outside_can_be_reached():
    """TCP and UDP, to private, public-looking and metadata addresses, on the ports of DNS, NTP, STUN and QUIC."""
    own_network()
    for port in (80, 53, 123, 3478, 443, 1080):
        with listening(METADATA + OTHERS, port) as here:
            outside("network", "reach", *targets(METADATA + OTHERS, port)).must_work(f"tcp:169.254.169.254:{port}", f"udp:10.0.0.1:{port}", f"tcp:fd00:ec2::254:{port}")
            here.forget()
            attempt = inside("network", "reach", *targets(METADATA + OTHERS, port))
            attempt.must_fail(f"tcp:169.254.169.254:{port}", f"udp:169.254.169.254:{port}", f"tcp:2001:db8::1:{port}", f"udp:192.0.2.1:{port}")
            assert set(attempt.denied.values()) <= {"ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EACCES"}, attempt.denied
            assert not here.visits, here.visits


@test
def a142_variables_about_proxies_change_nothing():
    with listening(("127.0.0.1",)) as here:
        for env in ({"NO_PROXY": "*", "no_proxy": "*"}, {"HTTP_PROXY": f"http://127.0.0.1:{here.port}", "ALL_PROXY": f"socks5://127.0.0.1:{here.port}"}, {}):
            options = [w for k, v in env.items() for w in ("--env", f"{k}={v}")]
            code = f"import socket, urllib.request\ntry: urllib.request.urlopen('http://127.0.0.1:{here.port}/', timeout=2)\nexcept Exception as e: print(e)"
            brig("run", *options, "--", "python3", "-c", code, env=env)
        assert not here.visits
        subprocess.run(["/usr/bin/python3", "-c", code], check=False, capture_output=True)
        assert here.visits, "the control proves nothing"


@test
def a143_the_hosts_loopback_is_not_the_sandboxs():
    addresses = ["127.0.0.1", "127.0.0.53", "::1"]
    with listening(addresses) as here:
        spellings = [*addresses, "0.0.0.0", "127.1", "::ffff:127.0.0.1", "::"]
        outside("network", "reach", *targets(spellings, here.port)).must_work(f"tcp:127.0.0.1:{here.port}", f"tcp:::1:{here.port}", f"udp:127.0.0.1:{here.port}", f"tcp:0.0.0.0:{here.port}")
        here.forget()
        inside("network", "reach", *targets(spellings, here.port)).must_fail(f"tcp:127.0.0.1:{here.port}", f"udp:127.0.0.1:{here.port}", f"tcp:::1:{here.port}")
        assert not here.visits, here.visits


@test
def a143_the_hosts_own_addresses_cannot_be_reached():
    """Those of this machine's real interfaces, where it has any: the listener is bound to them, nothing leaves."""
    text = subprocess.run(["ip", "-o", "-4", "addr", "show", "scope", "global"], capture_output=True, text=True, check=False).stdout
    mine = [line.split()[3].split("/")[0] for line in text.splitlines()]
    with listening(mine or ["127.0.0.1"]) as here:
        outside("network", "reach", *targets(mine or ["127.0.0.1"], here.port)).must_work()
        here.forget()
        inside("network", "reach", *targets(mine or ["127.0.0.1"], here.port)).must_fail()
        assert not here.visits, here.visits


@test
def a143_and_a146_another_sandbox_and_the_host_cannot_connect_in():
    with held("run", *mount("network"), "--", INSIDE, "listen", "42146", "/workspace") as h:
        outside("network", "reach", *targets(("127.0.0.1", "::1", "0.0.0.0"), 42146)).must_fail("tcp:127.0.0.1:42146")
        inside("network", "reach", *targets(("127.0.0.1", "::1"), 42146), options=("--workdir", scratch())).must_fail("tcp:127.0.0.1:42146")
    assert "visited" in h.process.result.denied, h.process.result.stdout
    done = brig("run", *mount("network"), "--", "sh", "-c", f"{INSIDE} listen 42147 /tmp & while [ ! -e /tmp/ready ]; do sleep 0.01; done; {INSIDE} reach tcp 127.0.0.1 42147; touch /tmp/go; wait")
    assert b"+ tcp:127.0.0.1:42147" in done.stdout, "a server inside serves inside"


@test
def a146_the_control_with_the_hosts_network_connects():
    port = 24148 + (uid() != 0)  # of the host: below those it gives out itself, and both identities are tried at once
    with held("run", "--network", "host", *mount("network"), "--", INSIDE, "listen", str(port), "/workspace") as h:
        outside("network", "reach", *targets(("127.0.0.1",), port)).must_work(f"tcp:127.0.0.1:{port}")
    assert "visited" in h.process.result.worked


@test
def a151_link_local_and_multicast_stay_inside():
    groups = {"224.0.0.251": 5353, "224.0.0.252": 5355, "239.255.255.250": 1900, "ff02::fb": 5353, "ff02::1": 5355, "ff02::1:3": 5355}
    lo = socket.if_nametoindex("lo")
    heard, sockets = [], []
    for group, port in groups.items():
        six = ":" in group
        s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("::" if six else "0.0.0.0", port))
        if six:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", lo))
        else:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + struct.pack("@4si", b"\0\0\0\0", lo))
        s.settimeout(0.2)
        sockets.append(s)
    args = [w for g, p in groups.items() for w in (g, str(p))]

    def listen():
        del heard[:]
        for s in sockets:
            with contextlib.suppress(OSError):
                heard.append(s.recv(64))
        return heard.count(b"PWNED")

    outside("network", "multicast", *args)
    assert listen(), "the control proves nothing"
    listen()
    inside("network", "multicast", *args)
    assert not listen()
    for s in sockets:
        s.close()


@test
def a169_names_fail_fast_without_a_network():
    code = "import socket, time\nt = time.monotonic()\ntry: socket.getaddrinfo('example.invalid', 80)\nexcept OSError as e: print(time.monotonic() - t)"
    took, done = timed(brig, "run", "--", "python3", "-c", code)
    assert done.status == 0 and float(done.text) < 1 and took < 5, (done.text, done.errors)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Two runs at a time: one hands folders to the other through a socket in the workspace, and ends."""

# stay TRY...: gets a descriptor for each distinct ROOT and, once `ended` is there, tries ROOT:WHAT:PATH by it.  go ROOT...: sends them.
PROGRAM = r"""
import array, os, socket, sys, time
def patient(call):
    for _ in range(3000):
        try:
            return call()
        except OSError:
            time.sleep(0.01)
    sys.exit(3)
role, words = sys.argv[1], sys.argv[2:]
if role == "go":
    c = socket.socket(socket.AF_UNIX)
    patient(lambda: c.connect("s.sock"))
    c.sendmsg([b"f"], [(1, 1, array.array("i", [os.open(w, os.O_RDONLY | os.O_DIRECTORY) for w in words]).tobytes())])
    c.recv(1)
    sys.exit()
tries = [w.split(":") for w in words]
roots = list(dict.fromkeys(t[0] for t in tries))
s = socket.socket(socket.AF_UNIX)
s.bind("s.sock")
s.listen(1)
c = s.accept()[0]
fds = dict(zip(roots, array.array("i", c.recvmsg(1, 256)[1][0][2])))
c.send(b"x")
patient(lambda: os.stat("ended"))
def write(path, fd):
    f = os.open(path, os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=fd)
    os.write(f, b"#!/bin/sh\necho PWNED\n")
calls = {"write": write, "unlink": lambda p, fd: os.unlink(p, dir_fd=fd), "chmod": lambda p, fd: os.chmod(p, 0o777, dir_fd=fd),
         "rename": lambda p, fd: os.rename(p, p + ".moved", src_dir_fd=fd, dst_dir_fd=fd),
         "link": lambda p, fd: os.link(p, "second", src_dir_fd=fd, dst_dir_fd=fd),
         "read": lambda p, fd: os.read(os.open(p, os.O_RDONLY, dir_fd=fd), 1)}
for root, what, path in tries:
    try:
        calls[what](path, fds[root])
        print("+", what, path)
    except OSError as e:
        print("-", what, path, e.strerror)
"""

# A descriptor of a file instead: GIVE SOCKET FILE sends it and ends; TAKE SOCKET TEXT writes to it once there is input.
GIVE = """import array, os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.bind(sys.argv[1])
s.listen(1)
c, _ = s.accept()
c.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open(sys.argv[2], os.O_RDWR)]).tobytes())])
"""
TAKE = """import array, os, socket, sys, time
c = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
while True:
    try:
        c.connect(sys.argv[1])
        break
    except OSError:
        time.sleep(0.05)
fd = array.array("i", c.recvmsg(1, socket.CMSG_SPACE(4))[1][0][2][:4])[0]
while c.recv(1):
    pass
print("taken", flush=True)
sys.stdin.read(1)
os.lseek(fd, 0, 2)
os.write(fd, sys.argv[2].encode())
print("written")
"""

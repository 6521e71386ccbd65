# SPDX-License-Identifier: Apache-2.0
"""What a command of an open sandbox tries, as programs in Python and lines of sh: for escape/test_commands.py and docker/test_commands.py."""

# Away from its group, its session and its parent, deaf to every signal that can be ignored.
AWAY = ("import os, signal, time\n"
        "for s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
        "def away(n):\n  if os.fork() == 0:\n    os.setsid()\n    if n: away(n - 1)\n    else:\n      open('away', 'w').close()\n"
        "      time.sleep(600)\n    os._exit(0)\n"
        "away(3)\n")

# CLONE_PARENT makes a sibling; after the reaper's death a sibling is a child of process 1.
SIBLING = ("import ctypes, os, platform, signal, time\n"
           "nr = 220 if platform.machine() == 'aarch64' else 56\n"
           "def sibling():\n  return ctypes.CDLL(None).syscall(nr, 0x8000 | 17, 0, 0, 0, 0)\n"
           "up = os.getppid()\n"
           "if sibling() == 0:\n  os.setsid()\n  open('away', 'w').close()\n"
           "  while True:\n    if sibling() == 0: time.sleep(600)\n    time.sleep(0.005)\n"
           "while not os.path.exists('away'): time.sleep(0.01)\n"
           "os.kill(up, signal.SIGKILL)\ntime.sleep(600)\n")

CHAIN = "import os\nopen('away', 'w').close()\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()\n"

LOOK = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def fails(what, call):
    try:
        got = call()
    except OSError as e:
        return
    if isinstance(got, int) and got < 0:
        return
    print(what, got)
for pid in (1, os.getppid()):
    for name in ('mem', 'environ', 'maps', 'auxv', 'io', 'syscall', 'stack'):
        fails(f'{pid}/{name}', lambda: open(f'/proc/{pid}/{name}', 'rb').read(1) or None)
    for name in ('fd', 'map_files', 'ns', 'task'):
        if name != 'task':
            fails(f'{pid}/{name}', lambda: os.listdir(f'/proc/{pid}/{name}'))
    for name in ('cwd', 'root', 'exe', 'fd/3', 'ns/pid'):
        fails(f'{pid}/{name}', lambda: os.readlink(f'/proc/{pid}/{name}'))
    fails(f'{pid} attach', lambda: libc.ptrace(16, pid, 0, 0))
    fails(f'{pid} seize', lambda: libc.ptrace(0x4206, pid, 0, 0))
    buf = ctypes.create_string_buffer(8)
    class iov(ctypes.Structure): _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]
    here, there = iov(ctypes.addressof(buf), 8), iov(id(buf), 8)
    fails(f'{pid} vm_readv', lambda: libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0))
    fd = libc.syscall(434, pid, 0)
    if fd >= 0:
        for n in range(3, 40):
            fails(f'{pid} getfd {n}', lambda: libc.syscall(438, fd, n, 0))
        os.close(fd)
    if pid == 1:  # a reaper only waits: whoever slows his own down gains nothing by it
        fails(f'{pid} prlimit', lambda: __import__('resource').prlimit(pid, 7, (0, 0)))
        fails(f'{pid} nice', lambda: libc.setpriority(0, pid, 19))
print('fds', [n for n in range(256) if libc.fcntl(n, 1) >= 0])
"""

STATE = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Seccomp_filters|Sig(Blk|Ign|Cgt))' /proc/self/status; cat /proc/self/limits; " \
        "cat /proc/self/oom_score_adj; nice; pwd; readlink /proc/self/ns/user | wc -c; cat /proc/self/attr/current 2>/dev/null; env | grep -v ^MARK_ | sort; " \
        "touch /etc/x /usr/x /x 2>&1; unshare -U true 2>&1; echo > /proc/sys/kernel/hostname; ls /proc/self/fd | wc -l; " \
        "grep -v NPROC /dev/null; mount -t tmpfs x /mnt 2>&1"

# SPDX-License-Identifier: Apache-2.0
"""ssh-agents for tests: a real one with a key, and one that writes down what it is asked for.

CLIENT is the protocol for who is inside (or, as a control, outside): Python that needs nothing but its standard library."""

import base64
import pathlib
import struct
import subprocess

from harness import brig_environment, files_as_root, identity, scratch, uid, wait_until

CLIENT = r"""
import hashlib, os, socket, struct
def dial(path=None):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(path or os.environ['SSH_AUTH_SOCK'])
    return s
def string(b):
    return struct.pack('>I', len(b)) + b
def read(s):
    head = b''
    while len(head) < 4:
        more = s.recv(4 - len(head))
        if not more: return None
        head += more
    body, n = b'', struct.unpack('>I', head)[0]
    while len(body) < n:
        more = s.recv(n - len(body))
        if not more: return None
        body += more
    return body
def call(body, s=None):
    own = s or dial()
    try:
        own.sendall(string(body))
        return read(own)
    except OSError:
        return None
    finally:
        if not s: own.close()
def kind(answer):
    return answer[0] if answer else None
def keys():
    a = call(b'\x0b')
    assert a[0] == 12, a
    at, found = 5, []
    for _ in range(struct.unpack('>I', a[1:5])[0]):
        n = struct.unpack('>I', a[at:at + 4])[0]
        found.append(a[at + 4:at + 4 + n])
        at += 4 + n
        at += 4 + struct.unpack('>I', a[at:at + 4])[0]
    assert at == len(a)
    return found
def signed(namespace=b'git', reserved=b'', algorithm=b'sha512', digest=None, data=b'text', tail=b''):
    digest = hashlib.new('sha512', data).digest() if digest is None else digest
    return b'SSHSIG' + string(namespace) + string(reserved) + string(algorithm) + string(digest) + tail
def login(key, user=b'git', session=b's' * 32, method=b'publickey', service=b'ssh-connection', more=b''):
    return string(session) + b'\x32' + string(user) + string(service) + string(method) + b'\1' + string(b'ssh-ed25519') + string(key) + more
def sign(key, data, flags=0):
    return call(b'\x0d' + string(key) + string(data) + struct.pack('>I', flags))
"""


def _as_identity(argv):
    return ["setpriv", f"--reuid={uid()}", f"--regid={uid()}", "--clear-groups", "--", *argv] if identity() == "user" else argv


class Agent:
    """ssh-agent of the one who starts brig, with one key."""

    def __enter__(self):
        self.socket, self.key = scratch() / "agent", scratch() / "key"
        self.process = subprocess.Popen(_as_identity(["ssh-agent", "-D", "-a", self.socket]), stdout=subprocess.DEVNULL)
        assert wait_until(self.socket.exists)
        self.env = {"SSH_AUTH_SOCK": str(self.socket)}
        self.ssh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tester", "-f", self.key)
        self.ssh("ssh-add", "-q", self.key)
        return self

    def ssh(self, *argv):
        """One of OpenSSH's programs, or what starts one: they want a name for the user. Root has one, and an agent obeys root as well."""
        return subprocess.run([*map(str, argv)], env=brig_environment(self.env), check=True, capture_output=True, text=True).stdout

    def call(self, *argv):
        return subprocess.run(_as_identity([*map(str, argv)]), env=brig_environment(self.env), check=True, capture_output=True, text=True).stdout

    def fingerprints(self):
        return [line.split()[1] for line in self.ssh("ssh-add", "-l").splitlines()]

    def client(self, code):
        """The same code outside of any sandbox, with the agent itself: a control."""
        done = subprocess.run(_as_identity(["/usr/bin/python3", "-c", CLIENT + code]), env=brig_environment(self.env), check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def verifies(self, namespace, data, answer):
        """Is this the agent's answer to a request to sign that text for that purpose?"""
        public = base64.b64decode((self.key.with_suffix(".pub")).read_text().split()[1])
        wrap = b"SSHSIG" + struct.pack(">I", 1)
        for part in (public, namespace, b"", b"sha512", answer[5:]):
            wrap += struct.pack(">I", len(part)) + part
        text = base64.b64encode(wrap).decode()
        lines = "\n".join(text[i:i + 70] for i in range(0, len(text), 70))
        with files_as_root():
            folder = pathlib.Path(scratch()) / "verify"
            folder.mkdir(exist_ok=True)
            (folder / "sig").write_text(f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n")
            (folder / "allowed").write_text(f"tester {self.key.with_suffix('.pub').read_text()}")
            return subprocess.run(["ssh-keygen", "-Y", "verify", "-f", folder / "allowed", "-I", "tester", "-n", namespace.decode(), "-s", folder / "sig"],
                                  input=data, capture_output=True, check=False).returncode == 0

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        for path in (self.key, self.key.with_suffix(".pub"), self.socket):
            path.unlink(missing_ok=True)


SCRIBE = r"""
import socket, struct, sys, threading
path, log, special = sys.argv[1], open(sys.argv[2], 'a', buffering=1), dict(a.split('=') for a in sys.argv[3:])
key = b'\0\0\0\x0bssh-ed25519\0\0\0\x20' + b'k' * 32
def answer(kind):
    if str(kind) in special: return bytes.fromhex(special[str(kind)])
    body = b'\x0c\0\0\0\1' + struct.pack('>I', len(key)) + key + b'\0\0\0\1c' if kind == 11 else b'\x0e\0\0\0\3sig' if kind == 13 else b'\6'
    return struct.pack('>I', len(body)) + body
def one(s):
    data = b''
    try:
        while more := s.recv(65536):
            data += more
            while len(data) >= 5 and len(data) >= 4 + struct.unpack('>I', data[:4])[0]:
                log.write(f'{data[4]}\n')
                s.sendall(answer(data[4]))
                data = data[4 + struct.unpack('>I', data[:4])[0]:]
    except OSError:
        pass
    s.close()
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(64)
print('ready', flush=True)
while True:
    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()
"""


class Scribe:
    """An agent that signs nothing: it writes down the type of each message, and says what it is told to say."""

    def __init__(self, **answers):
        self.answers = [f"{kind.lstrip('_')}={data.hex()}" for kind, data in answers.items()]

    def __enter__(self):
        self.socket, self.log = scratch() / "scribe", scratch() / "scribe.log"
        self.env = {"SSH_AUTH_SOCK": str(self.socket)}
        self.process = subprocess.Popen(_as_identity(["/usr/bin/python3", "-c", SCRIBE, str(self.socket), str(self.log), *self.answers]), stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        return self

    def types(self):
        return [int(line) for line in self.log.read_text().split()]

    def client(self, code):
        return Agent.client(self, code)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.socket.unlink()
        self.log.unlink()

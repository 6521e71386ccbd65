# SPDX-License-Identifier: Apache-2.0
"""Which suites a change can break first, for tests/run-suite --changed: a first answer, and no judgement of a push."""

import subprocess

ALWAYS = ("lint", "tidy", "unit")

# The beginning of a path, and what to run beside ALWAYS when something below it has changed. The longest beginning decides;
# a file that none of them names may break anything.
BREAKS = {
    "include/": ("run", "sdk"),
    "src/apps/batch/": ("run",),
    "src/apps/bundle/": ("run", "fuzz"),
    "src/apps/chat/": ("run", "egress"),
    "src/apps/mcp/": ("mcp",),
    "src/apps/setup/": ("run",),
    "src/apps/toolset/": ("mcp", "run"),
    "src/apps/wrap/": ("run", "escape", "workloads"),
    "src/audit/": ("run", "fuzz"),
    "src/backend/": ("run", "escape", "bwrap", "conformance"),
    "src/backend/bwrap/": ("bwrap", "conformance"),
    "src/backend/docker/": ("docker", "conformance"),
    "src/backend/kubernetes/": ("kube",),
    "src/backend/native/": ("run", "escape", "denied"),
    "src/backend/none/": ("run", "conformance"),
    "src/backend/slurm/": ("run", "conformance"),
    "src/backend/ssh/": ("run", "conformance"),
    "src/base/": ("fuzz", "run", "escape"),
    "src/cli/": ("run",),
    "src/cli/sandbox/": ("run", "daemon"),
    "src/daemon/": ("daemon", "sdk"),
    "src/doctor/": ("run",),
    "src/egress/": ("egress", "fuzz"),
    "src/git/": ("escape", "fuzz"),
    "src/http/": ("daemon", "mcp", "fuzz"),
    "src/image/": ("run", "docker"),
    "src/interp/": ("mcp", "daemon"),
    "src/kube/": ("kube", "fuzz"),
    "src/model/": ("fuzz", "run"),
    "src/proc/": ("run", "escape", "denied", "conformance"),
    "src/far/": ("conformance", "run", "docker"),
    "src/sandbox/": ("run", "escape", "egress"),
    "src/telemetry/": ("run",),
    "src/wire/": ("egress", "fuzz"),
    "bench/": (),
    "debian/": (),
    "deploy/": (),
    "docs/": ("run",),
    "examples/": ("run",),
    "images/": ("docker",),
    "sdk/": ("sdk",),
    "systemd/": (),
    "tests/cluster/": (),
    "tests/conformance/": ("conformance",),
    "tests/daemon/": ("daemon",),
    "tests/deb/": (),
    "tests/differential/": ("fuzz",),
    "tests/docker/": ("docker",),
    "tests/egress/": ("egress",),
    "tests/escape/": ("escape",),
    "tests/fuzz/": ("fuzz",),
    "tests/golden/": (),
    "tests/gpu/": (),
    "tests/kernels/": (),
    "tests/kube/": ("kube",),
    "tests/mcp/": ("mcp",),
    "tests/run/": ("run",),
    "tests/sdk/": ("sdk",),
    "tests/unit/": (),
    "tests/workloads/": ("workloads",),
    "tools/": (),
    # Pages at the top.
    "CHANGELOG.md": (),
    "CONTRIBUTING.md": (),
    "README.md": ("run",),
    "SECURITY.md": (),
    "src/workspace/": ("run", "escape", "fuzz"),
}


def files(top, base):
    """Paths that differ from the commit `base`, and those that nobody has added yet."""
    found = set()
    for argv in (["git", "diff", "--name-only", "--no-renames", base, "--"], ["git", "ls-files", "--others", "--exclude-standard"]):
        found |= set(subprocess.run(argv, cwd=top, capture_output=True, text=True, check=True).stdout.splitlines())
    return found


def suites(paths, known):
    """Those of `known`, in its order, that a change of these paths can break first."""
    if not paths:
        return []
    wanted = set(ALWAYS)
    for path in paths:
        beginnings = [b for b in BREAKS if path.startswith(b)]
        if not beginnings:
            return list(known)
        wanted |= set(BREAKS[max(beginnings, key=len)])
    return [name for name in known if name in wanted]

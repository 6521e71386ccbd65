#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""GPUs: which device nodes a command is shown, and what only looks like one."""

import errno
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import held, inner_pid, on_host  # noqa: E402
from gpu_nodes import CAPS, CHARACTERS, MIG, NEAR, NOT_NEAR, NVIDIA, OTHERS, PCI, SCREENS, TOPOLOGY, UUIDS, amd_driver, driver, machine, numbers, nvidia_sys, seen  # noqa: E402
from harness import brig, files_as_root, main, test, workspace  # noqa: E402

PROBE = """
import json, os, pathlib
found = {}
for path in sorted(pathlib.Path("/dev").rglob("*")):
    if path.is_symlink() or not path.is_char_device() or str(path).startswith("/dev/pts/"):
        continue
    try:
        os.close(os.open(path, os.O_RDWR))
        error = 0
    except OSError as e:
        error = e.errno
    found[str(path)[5:]] = error
print(json.dumps([found, {k: v for k, v in os.environ.items() if "VISIBLE" in k}]))
"""
WAIT = "touch ready; until [ -e go ]; do sleep 0.02; done"
ALWAYS = {"null", "zero", "full", "random", "urandom", "tty"}


def probe(*options, env=None):
    """What the command finds: devices and how an open of each ends, its variables, and the report."""
    done = brig("run", *options, "--json", "--", "python3", "-c", PROBE, env=env)
    said = done.json
    assert said["outcome"] == "exited" and said["exit_code"] == 0, said
    found, variables = json.loads(said["stdout"])
    return {name: error for name, error in found.items() if name not in ALWAYS}, variables, {**said, "told": done.errors}


def shown(*options, env=None):
    """The oracle: what the host sees in a living sandbox's /dev."""
    with held("run", *options, "--", "sh", "-c", WAIT, env=env) as h, files_as_root():
        first = min((inner_pid(pid) or sys.maxsize, pid) for pid in h.guests())[1]  # the shell: a sleep may be gone by now
        return seen(f"/proc/{first}/root/dev")


def refused(*options, env=None):
    done = brig("run", *options, "--json", "--", "touch", "begun", env=env)
    said = done.json
    assert said["outcome"] == "refused" and said["error"]["hint"] and not (workspace() / "begun").exists(), said
    return said["error"]["what"]


@test(by_root=True)
def gpus_that_were_asked_for_are_shown_and_no_others():
    with machine({**NVIDIA, **OTHERS, **SCREENS}):
        on_host("test", "-c", "/dev/nvidia1").check_returncode()
        assert shown() == {}
        assert shown("--gpus", "all") == numbers(NVIDIA, OTHERS)
        one = {name: what for name, what in NVIDIA.items() if name != "nvidia1"}
        assert shown("--gpus", "1") == numbers(one)
        found, variables, said = probe("--gpus", "2")
        assert found == dict.fromkeys(NVIDIA, errno.ENXIO), found  # reached, and no driver is there
        assert variables == {"CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "0,1"}, variables
        assert set(said["isolation"]["gpus"]) == {f"/dev/{name}" for name in NVIDIA} and said["isolation"]["limits"]["gpus"] == "devices", said["isolation"]
        assert "a part of the kernel" in said["told"] and "/dev/nvidia1" in said["told"], said["told"]
        record = brig("audit", "show", said["id"], "--json").text
        assert "gpus=/dev/nvidia0,/dev/nvidia1,/dev/nvidiactl" in record, record
        plan = brig("plan", "--json", "--gpus", "1", "--", "true").json
        assert "/dev/nvidia0" in plan["gpus"] and "/dev/nvidia1" not in plan["gpus"], plan["gpus"]
        assert {"op": "device", "source": "/dev/nvidia0", "target": "/dev/nvidia0"} in plan["ops"]
        found, variables, said = probe()
        assert not found and not variables and "gpus" not in said["isolation"] and said["isolation"]["limits"]["gpus"] == "none", (found, variables)
    with machine(OTHERS):
        lowest = {name: what for name, what in OTHERS.items() if name != "dri/renderD129"}
        assert shown("--gpus", "1") == numbers(lowest)
        found, variables, _ = probe("--gpus", "2")
        assert found == dict.fromkeys(OTHERS, errno.ENXIO) and not variables, found


@test(by_root=True)
def gpus_by_number_and_id_are_those_and_no_others():
    first, second = ({name: what for name, what in NVIDIA.items() if name != other} for other in ("nvidia1", "nvidia0"))
    with machine({**NVIDIA, **OTHERS}), driver():
        assert shown("--gpu", "1") == numbers(second)
        assert shown("--gpu", UUIDS[0]) == numbers(first)
        assert shown("--gpu", UUIDS[1], "--gpu", "0", "--gpu", "1") == numbers(NVIDIA)
        assert shown("--gpu", "1", env={"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "1"}) == numbers(second)
        assert "'0' is not of this job" in refused("--gpu", "0", env={"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "1"})
        for wrong, said in (("2", "'2' is not here"), ("64", "is not here"), (UUIDS[0][:-1], "is not here"), ("MIG-8f6d2c1a", "does not tell"),
                            ("0/1/0", "no MIG device")):
            assert said in refused("--gpu", wrong), wrong
        assert "not both" in refused("--gpu", "0", "--gpus", "1")
        for wrong in ("", "all", "-1", "0,1", "GPU-../../x", "0/1", "0/1/", "0/1/0/0", "/dev/nvidia0"):
            assert "neither a number nor the id" in refused("--gpu", wrong), wrong
        (workspace() / ".brig.yaml").write_text("brig: 1\ngpu: ['0']\n")
        assert "untrusted" in refused()
        (workspace() / ".brig.yaml").unlink()
    with machine(OTHERS):
        assert set(shown("--gpu", "1")) == {"dri", "dri/renderD129", "kfd"}


@test(by_root=True)
def a_part_of_a_gpu_is_that_part_and_never_the_right_to_divide_it():
    def part(*names):
        return numbers({name: what for name, what in NVIDIA.items() if name != "nvidia1"},
                       {f"nvidia-caps/nvidia-cap{CAPS[name]}": ("c", 505, CAPS[name]) for name in names})
    with machine({**NVIDIA, **MIG}, modes=dict.fromkeys(MIG, 0o444)), driver(CAPS):
        assert shown("--gpu", "0/2/1") == part("gi2", "gi2/ci1")
        assert shown("--gpu", "0/2/1", "--gpu", f"{UUIDS[0]}/2/0") == part("gi2", "gi2/ci0", "gi2/ci1")
        assert shown("--gpu", "0", "--gpu", "0/1/0") == shown("--gpus", "1") == part(*CAPS)
        for wrong in ("0/3/0", "0/1/1", "1/1/0"):
            assert "no MIG device" in refused("--gpu", wrong), wrong
    with machine({**NVIDIA, **MIG, "nvidia-caps/nvidia-cap12": ("c", 1, 12)}), driver(CAPS):  # which has the name alone
        assert "'/dev/nvidia-caps/nvidia-cap12' is not a node of its driver" in refused("--gpu", "0/1/0")


@test(by_root=True)
def with_a_gpu_threads_can_be_named_by_fopen_and_nothing_else_of_proc_can_be_written():
    """As the driver's library does, which gives up otherwise. Without one it stays closed, which is the control."""
    script = "echo named > /proc/self/comm; read name < /proc/$$/comm; echo $name; for f in oom_score_adj oom_adj clear_refs timens_offsets; do echo 1 > /proc/self/$f && echo $f; done; echo 1 > new && cat new"
    with machine(NVIDIA):
        done = brig("run", "--quiet", "--gpus", "1", "--", "sh", "-c", script)
        assert done.text.split() == ["named", "1"], (done.text, done.errors)
        assert brig("run", "--quiet", "--", "sh", "-c", script).text.split() == ["sh", "1"]
    (workspace() / "new").unlink()


READ_SYS = """
import json, os, pathlib
found, written = {}, []
for folder in map(pathlib.Path, ("/sys/dev", "/sys/bus", "/sys/class", "/sys/devices/virtual", "/sys/devices/system/memory", "/sys/module")):
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
            assert path.exists(), path
        elif path.is_file():
            found[str(path)] = path.read_text()
            try:
                os.close(os.open(path, os.O_WRONLY))
                written.append(str(path))
            except OSError:
                pass
print(json.dumps([found, written]))
"""


@test(by_root=True)
def of_sys_a_gpu_has_what_its_libraries_read_and_nothing_that_changes_it():
    def below_sys(*options):
        return json.loads(brig("run", *options, "--", "python3", "-c", READ_SYS).text)

    device, kfd = "/sys/dev/char/226:128/device", "/sys/devices/virtual/kfd/kfd"
    told = {**{f"{device}/{name}": text for name, text in list(PCI.items())[:-2]}, **{f"{kfd}/topology/{name}": text for name, text in TOPOLOGY.items()},
            f"{device}/drm/renderD128/dev": "226:128\n", f"{device}/subsystem": "../../../../bus/pci",
            "/sys/bus/pci/devices/0000:c1:00.0": "../../../dev/char/226:128/device", "/sys/class/kfd/kfd": "../../devices/virtual/kfd/kfd"}
    with machine({**OTHERS, **NVIDIA}), amd_driver(), driver(), nvidia_sys():
        on_host("test", "-f", f"{device}/rom", "-a", "-f", f"{kfd}/proc/77/vram_51134").check_returncode()
        assert below_sys("--gpus", "all") == [{**told, **NEAR}, []]
        assert below_sys() == [{}, []]
    with machine(OTHERS), amd_driver():
        assert below_sys("--gpus", "1") == [told, []]
    with machine(OTHERS):  # a kernel that tells nothing
        assert below_sys("--gpus", "all") == [{}, []]
    with machine(NVIDIA), driver(), nvidia_sys():
        on_host("test", "-f", NOT_NEAR[0]).check_returncode()
        assert below_sys() == [{}, []] and below_sys("--gpus", "all") == [NEAR, []]
        one = {name: text for name, text in NEAR.items() if "0000:02" not in name}
        assert below_sys("--gpu", "0") == [one, []]


@test(by_root=True)
def what_only_has_the_name_of_a_gpu_is_not_shown():
    """A device of another driver would be a way to it: memory, disks. The node beside it is shown, which is the control."""
    fakes = {"nvidia1": ("file", "not a device"), "nvidia2": ("link", "/dev/nvidia0"), "nvidia3": ("c", 1, 3), "nvidia4": ("b", 195, 4),
             "nvidia5": ("c", 195, 0), "nvidia6": ("link", "/dev/zero"), "nvidia7": ("folder",), "nvidia-uvm-tools": ("c", 1, 1),
             "dri/renderD128": ("c", 226, 0), "dri/renderD129": ("c", 1, 129), "kfd": ("c", 1, 11)}
    whole = {**NVIDIA, **fakes}
    real = {name: what for name, what in NVIDIA.items() if name not in fakes}
    with machine(whole):
        for name in ("nvidia1", "nvidia3", "nvidia6"):  # the control: whoever goes by the name gets it
            on_host("sh", "-c", f"exec 3<>/dev/{name}").check_returncode()
        assert shown("--gpus", "all") == numbers(real)
        found, _, said = probe("--gpus", "all")
        assert found == dict.fromkeys(real, errno.ENXIO) and set(said["isolation"]["gpus"]) == {f"/dev/{name}" for name in real}, said["isolation"]
        assert "2 of them were asked for, here are 1" in refused("--gpus", "2")
    # A folder of nodes that is elsewhere.
    with machine({**real, "elsewhere/renderD128": ("c", 226, 128), "dri": ("link", "elsewhere")}):
        on_host("test", "-c", "/dev/dri/renderD128").check_returncode()
        assert shown("--gpus", "all") == numbers(real)
    # It is the kernel's list that decides, not a number known by heart.
    with machine({**NVIDIA, "nvidia3": ("c", 1, 3)}, majors={**CHARACTERS, "nvidia": 1, "nvidiactl": 1}):
        assert "'/dev/nvidiactl'" in refused("--gpus", "all")
    with machine({**NVIDIA, "nvidia3": ("c", 1, 3), "nvidiactl": ("c", 1, 255)}, majors={**CHARACTERS, "nvidia": 1, "nvidiactl": 1}):
        assert set(shown("--gpus", "all")) == {"nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}
    with machine(fakes):
        assert "there is no GPU here" in refused("--gpus", "all")


@test(by_root=True)
def a_gpu_that_is_not_there_stops_the_run():
    with machine({}):
        assert "there is no GPU here" in refused("--gpus", "1")
    with machine(NVIDIA, majors={"mem": 1}):
        assert "there is no GPU here" in refused("--gpus", "all")
    with machine(NVIDIA):
        assert "3 of them were asked for, here are 2" in refused("--gpus", "3")
        done = brig("run", "--backend", "bwrap", "--gpus", "1", "--json", "--", "true").json
        assert done["outcome"] == "refused" and "'bwrap' cannot honour --gpus" in done["error"]["what"] and "native" in done["error"]["hint"], done
        for wrong in ("0", "65", "device=0", "All"):
            assert brig("run", "--gpus", wrong, "--", "true").status == 125, wrong
    with machine(NVIDIA, modes={"nvidia0": 0o600}):
        assert "may not open '/dev/nvidia0'" in refused("--gpus", "1")


@test(by_root=True)
def within_a_job_of_slurm_its_gpus_are_all_there_are():
    job = {"SLURM_JOB_ID": "7"}
    with machine({**NVIDIA, **OTHERS}):
        second = {name: what for name, what in NVIDIA.items() if name != "nvidia0"}
        for gpus in ("1", "all"):
            assert shown("--gpus", gpus, env={**job, "SLURM_STEP_GPUS": "1"}) == numbers(second), gpus
        _, variables, _ = probe("--gpus", "1", env={**job, "SLURM_JOB_GPUS": "1"})
        assert variables == {"CUDA_VISIBLE_DEVICES": "0", "NVIDIA_VISIBLE_DEVICES": "1"}, variables
        assert "2 of them were asked for, this job of Slurm has 1" in refused("--gpus", "2", env={**job, "SLURM_STEP_GPUS": "0"})
        assert "has no GPU" in refused("--gpus", "1", env=job)
        assert "/dev/nvidia5" in refused("--gpus", "all", env={**job, "SLURM_STEP_GPUS": "0,5"})
        for text in ("GPU-1234", "0;1", "9999999999999", "1-", "0,,1"):
            assert "cannot be read" in refused("--gpus", "1", env={**job, "SLURM_STEP_GPUS": text}), text


@test(by_root=True)
def a_project_cannot_give_itself_a_gpu():
    with machine(NVIDIA):
        for text in ("gpus: 1", "gpus: all"):
            (workspace() / ".brig.yaml").write_text(f"brig: 1\n{text}\n")
            assert "untrusted" in refused(), text
            assert shown("--gpus", "none") == {}, text  # the user's own word holds
        (workspace() / ".brig.yaml").write_text("brig: 1\ngpus: none\n")
        assert shown() == {}
        (workspace() / ".brig.yaml").write_text("brig: 1\ngpus: 1\n")  # the control: once it is trusted, it has one
        assert brig("allow", workspace() / ".brig.yaml").status == 0
        assert "nvidia0" in shown()


if __name__ == "__main__":
    sys.exit(main())

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/fields.h"

#include <assert.h>

#include "base/str.h"
#include "model/spec.h"

/* clang-format off */
static const char *const policies[] = { "readonly", "workspace_write", "full_access", NULL };
static const char *const backends[] = { "auto", "native", "bwrap", "docker", "ssh", "kubernetes", "none",
	NULL };
static const char *const networks[] = { "none", "proxy", "bridge", "host", NULL };
static const char *const modes[] = { "direct", "overlay", NULL };
static const char *const remotes[] = { "plain", "brig", NULL };
static const char *const profiles[] = { "strict", "default", "debug", NULL };

#define AT(member) offsetof(struct spec, member)
#define STARTS (CMD_RUN | CMD_EXEC | CMD_PYTHON | CMD_SCRIPT)
#define ALL_CMDS (STARTS | CMD_PLAN)
#define BOTH (ON_NATIVE | ON_NONE)
#define ALSO_SSH (BOTH | ON_SSH)
#define EVERY (~0U)

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define TIB (1024 * 1024 * MIB)
#define WEEK_MS ((uint64_t)7 * 24 * 3600 * 1000)

const struct field fields[FIELD_COUNT] = {
	[FIELD_POLICY] = { .flag = "policy", .key = "policy", .variable = "BRIG_POLICY",
		.type = FIELD_T_WORD, .offset = AT(policy), .words = policies, .fallback = "workspace_write",
		.arg = "NAME", .help = "what the command may change: readonly, workspace_write or full_access",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_BACKEND] = { .flag = "backend", .key = "backend", .variable = "BRIG_BACKEND",
		.type = FIELD_T_WORD, .offset = AT(backend), .words = backends, .fallback = "auto",
		.arg = "NAME", .help = "how it is isolated: auto, native, ssh (another host) or none (the host itself)",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_NETWORK] = { .flag = "network", .key = "network", .variable = "BRIG_NETWORK",
		.type = FIELD_T_WORD, .offset = AT(network), .words = networks, .fallback = "none",
		.arg = "NAME", .help = "none (a private loopback) or host (the host's own network)",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_WORKDIR] = { .flag = "workdir", .key = "workspace.path",
		.type = FIELD_T_PATH, .offset = AT(workdir),
		.arg = "DIR", .help = "host folder shown as the workspace; the current one if not given",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_TARGET] = { .key = "workspace.target",
		.type = FIELD_T_STRING, .offset = AT(target), .fallback = "/workspace",
		.arg = "PATH", .help = "where the workspace appears inside",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_TIMEOUT] = { .flag = "timeout", .key = "limits.timeout", .variable = "BRIG_TIMEOUT",
		.type = FIELD_T_DURATION, .offset = AT(limits.timeout), .min = 1, .max = 52 * WEEK_MS,
		.fallback = "120s",
		.arg = "TIME", .help = "end the run after this long (30s, 10m, 1h30m); no default with --tty",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_MEMORY] = { .flag = "memory", .key = "limits.memory", .variable = "BRIG_MEMORY",
		.type = FIELD_T_SIZE, .offset = AT(limits.memory), .min = MIB, .max = 64 * TIB, .fallback = "2g",
		.arg = "SIZE", .help = "memory of all processes together (256m, 2g)",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_CPUS] = { .flag = "cpus", .key = "limits.cpus", .variable = "BRIG_CPUS",
		.type = FIELD_T_MILLI, .offset = AT(limits.cpus), .min = 10, .max = 4096000,
		.arg = "N", .help = "CPUs of all processes together (1.5); all of them if not given",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_CPU_SHARES] = { .flag = "cpu-shares", .key = "limits.cpu_shares",
		.type = FIELD_T_COUNT, .offset = AT(limits.cpu_shares), .min = 2, .max = 262144,
		.fallback = "1024",
		.arg = "N", .help = "weight against other work on the machine; 1024 is an ordinary share",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_PIDS] = { .flag = "pids", .key = "limits.pids", .variable = "BRIG_PIDS",
		.type = FIELD_T_COUNT, .offset = AT(limits.pids), .min = 2, .max = 4194304, .fallback = "256",
		.arg = "N", .help = "processes and threads at one time",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_DISK] = { .flag = "disk", .key = "limits.disk",
		.type = FIELD_T_SIZE, .offset = AT(limits.disk), .min = MIB, .max = 1024 * TIB,
		.arg = "SIZE", .help = "bytes the run may write to the workspace; also caps the private folders",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_TMP] = { .key = "limits.tmp",
		.type = FIELD_T_SIZE, .offset = AT(limits.tmp), .min = 64 * KIB, .max = TIB, .fallback = "1g",
		.arg = "SIZE", .help = "size of the private /tmp, HOME and /dev/shm together",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_FILES] = { .key = "limits.files",
		.type = FIELD_T_COUNT, .offset = AT(limits.files), .min = 16, .max = 1048576, .fallback = "4096",
		.arg = "N", .help = "open files of one process",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_OUTPUT] = { .flag = "output-limit", .key = "limits.output",
		.type = FIELD_T_SIZE, .offset = AT(limits.output), .min = 1, .max = 1024 * MIB, .fallback = "64k",
		.arg = "SIZE", .help = "bytes kept of each stream with --json; given without it, of what passes through",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_MOUNT] = { .flag = "mount", .key = "mounts",
		.type = FIELD_T_MOUNTS, .offset = AT(mounts),
		.arg = "SRC:DST[:rw]", .help = "show a host file or folder at another place, read-only unless :rw",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_READ] = { .flag = "read", .key = "read",
		.type = FIELD_T_PATHS, .offset = AT(read),
		.arg = "PATH", .help = "show a host file or folder at its own path, read-only",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_WRITE] = { .flag = "write", .key = "write",
		.type = FIELD_T_PATHS, .offset = AT(write),
		.arg = "PATH", .help = "show a host file or folder at its own path, writable",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_ENV] = { .flag = "env", .key = "env.set",
		.type = FIELD_T_ENV, .offset = AT(env),
		.arg = "NAME[=VALUE]", .help = "set a variable inside; a name alone takes the caller's own",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_ENV_PASS] = { .flag = "env-pass", .key = "env.pass",
		.type = FIELD_T_NAMES, .offset = AT(env_pass),
		.arg = "NAME", .help = "pass one of the caller's variables on, unless its name is a secret's",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_USER] = { .flag = "user", .key = "user",
		.type = FIELD_T_USER, .offset = AT(user),
		.arg = "UID[:GID]", .help = "ids inside; auto is the caller's, or 1000 for root",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_PROFILE] = { .flag = "profile", .key = "profile",
		.type = FIELD_T_WORD, .offset = AT(profile), .words = profiles, .fallback = "default",
		.arg = "NAME", .help = "system calls: strict, default or debug (for debuggers)",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_READ_ONLY_ROOT] = { .key = "read_only_root",
		.type = FIELD_T_BOOL, .offset = AT(read_only_root), .fallback = "true",
		.help = "false: a private writable layer over the system folders, thrown away afterwards",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_TMP_EXEC] = { .key = "limits.tmp_exec",
		.type = FIELD_T_BOOL, .offset = AT(tmp_exec), .fallback = "true",
		.help = "false: programs in the private /tmp cannot be executed",
		.honoured = ON_NATIVE | ON_DOCKER, .commands = ALL_CMDS },
	[FIELD_USER_NAME] = { .key = "user_name",
		.type = FIELD_T_STRING, .offset = AT(user_name), .fallback = "brig",
		.arg = "NAME", .help = "what the user inside is called",
		.honoured = ON_NATIVE | ON_DOCKER, .commands = ALL_CMDS },
	[FIELD_WORKSPACE_MODE] = { .key = "workspace.mode",
		.type = FIELD_T_WORD, .offset = AT(workspace_mode), .words = modes, .fallback = "direct",
		.arg = "NAME", .help = "direct: the folder itself; overlay: a layer over it",
		.honoured = ON_NATIVE, .commands = ALL_CMDS },
	[FIELD_MOUNT_ROOTS] = { .key = "mount_roots",
		.type = FIELD_T_PATHS, .offset = AT(mount_roots),
		.arg = "PATH", .help = "folders that mounts may come from; anywhere permitted if none is given",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_IMAGE] = { .flag = "image", .key = "image",
		.type = FIELD_T_STRING, .offset = AT(image),
		.arg = "REF", .help = "container image to run in; asks for a backend that runs images",
		.honoured = ON_DOCKER, .commands = ALL_CMDS },
	[FIELD_RUNTIME] = { .flag = "runtime", .key = "runtime",
		.type = FIELD_T_STRING, .offset = AT(runtime),
		.arg = "NAME", .help = "container runtime: runc, runsc, kata-runtime, kata-qemu, kata-fc or kata-clh",
		.honoured = ON_DOCKER, .commands = ALL_CMDS },
	[FIELD_DOCKER_IMAGE] = { .key = "docker.image",
		.type = FIELD_T_STRING, .offset = AT(docker.image),
		.arg = "REF", .help = "image to use when the docker backend is chosen",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_DOCKER_USER] = { .key = "docker.user",
		.type = FIELD_T_STRING, .offset = AT(docker.user), .fallback = "auto",
		.arg = "USER", .help = "user in the container: auto, UID:GID, or empty for the image's own",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_DOCKER_RUNTIME] = { .key = "docker.runtime",
		.type = FIELD_T_STRING, .offset = AT(docker.runtime),
		.arg = "NAME", .help = "runtime to use when the docker backend is chosen",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_DOCKER_EXTRA_ARGS] = { .key = "docker.extra_args",
		.type = FIELD_T_EXTRA_ARGS, .offset = AT(docker.extra_args),
		.arg = "FLAG", .help = "more flags of docker run; only harmless ones are taken",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_AUTO_PULL] = { .flag = "auto-pull", .key = "docker.auto_pull",
		.type = FIELD_T_BOOL, .offset = AT(docker.auto_pull), .fallback = "true",
		.help = "fetch an image that is not there",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_HOST] = { .key = "ssh.host",
		.type = FIELD_T_STRING, .offset = AT(ssh.host),
		.arg = "HOST", .help = "where the ssh backend runs the command: an alias or USER@HOST",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_REMOTE_CWD] = { .key = "ssh.remote_cwd",
		.type = FIELD_T_STRING, .offset = AT(ssh.remote_cwd),
		.arg = "PATH", .help = "folder on the remote host",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_IDENTITY_FILE] = { .key = "ssh.identity_file",
		.type = FIELD_T_STRING, .offset = AT(ssh.identity_file),
		.arg = "PATH", .help = "key file for ssh",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_CONFIG_FILE] = { .key = "ssh.config_file",
		.type = FIELD_T_STRING, .offset = AT(ssh.config_file),
		.arg = "PATH", .help = "configuration file for ssh",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_CONNECT_TIMEOUT] = { .key = "ssh.connect_timeout",
		.type = FIELD_T_DURATION, .offset = AT(ssh.connect_timeout), .min = 1000, .max = WEEK_MS,
		.fallback = "10s",
		.arg = "TIME", .help = "how long ssh may take to connect",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_CONTROL_PERSIST] = { .key = "ssh.control_persist",
		.type = FIELD_T_DURATION, .offset = AT(ssh.control_persist), .min = 0, .max = 52 * WEEK_MS,
		.fallback = "60s",
		.arg = "TIME", .help = "how long the connection stays warm",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_SSH_REMOTE] = { .key = "ssh.remote",
		.type = FIELD_T_WORD, .offset = AT(ssh.remote), .words = remotes, .fallback = "plain",
		.arg = "NAME", .help = "plain: the remote host itself; brig: a native sandbox on it, made by its own brig",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_EGRESS_ALLOW] = { .flag = "allow", .key = "egress.allow",
		.type = FIELD_T_STRINGS, .offset = AT(egress.allow),
		.arg = "HOST[:PORT][/PREFIX]", .help = "what network proxy lets through; @pypi and the like are groups",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_EGRESS_DENY] = { .key = "egress.deny",
		.type = FIELD_T_STRINGS, .offset = AT(egress.deny),
		.arg = "HOST", .help = "what it never lets through; beats allow",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_EGRESS_GROUPS] = { .key = "egress.groups",
		.type = FIELD_T_STRINGS, .offset = AT(egress.groups),
		.arg = "NAME", .help = "named lists of hosts: pypi, npm, crates, go, docs, git, build",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_EGRESS_HTTPS_ONLY] = { .key = "egress.https_only",
		.type = FIELD_T_BOOL, .offset = AT(egress.https_only), .fallback = "true",
		.help = "refuse plain HTTP to remote hosts",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_EGRESS_PORT] = { .key = "egress.port",
		.type = FIELD_T_COUNT, .offset = AT(egress.port), .min = 0, .max = 65535, .fallback = "0",
		.arg = "PORT", .help = "port of the explicit proxy; 0 chooses one",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_COPIES] = { .key = "copies",
		.type = FIELD_T_COPIES, .offset = AT(copies),
		.help = "files and folders copied in before the start",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_COMPANIONS] = { .key = "companions",
		.type = FIELD_T_COMPANIONS, .offset = AT(companions),
		.help = "services beside the sandbox, reached by name",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_BUILTIN_TOOLS] = { .key = "builtin_tools",
		.type = FIELD_T_STRINGS, .offset = AT(builtin_tools),
		.arg = "NAME", .help = "tools of the host whose files enter: claude, codex, git, uv, npm, apt, opencode",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_LABELS] = { .key = "labels",
		.type = FIELD_T_LABELS, .offset = AT(labels),
		.arg = "NAME=VALUE", .help = "labels of the sandbox",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_PORTS] = { .key = "ports",
		.type = FIELD_T_PORTS, .offset = AT(ports),
		.arg = "HOST:CONTAINER[/PROTOCOL]", .help = "ports of the sandbox shown on the host's loopback",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_GPUS] = { .key = "gpus",
		.type = FIELD_T_STRING, .offset = AT(gpus),
		.arg = "all", .help = "all: the host's GPUs",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_COMMAND] = { .key = "command",
		.type = FIELD_T_STRINGS, .offset = AT(command),
		.arg = "WORD", .help = "main command of a long-lived sandbox",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_IDLE_TTL] = { .key = "idle_ttl",
		.type = FIELD_T_DURATION, .offset = AT(idle_ttl), .min = 0, .max = 520 * WEEK_MS, .fallback = "10m",
		.arg = "TIME", .help = "a long-lived sandbox stops after this long without work; 0 never",
		.honoured = 0, .commands = ALL_CMDS },
	[FIELD_FULL_ACCESS_OK] = { .flag = "i-know-this-is-not-a-sandbox", .key = "allow_full_access",
		.type = FIELD_T_BOOL, .offset = AT(full_access_ok), .fallback = "false",
		.help = "the second opt-in that full_access and backend none need",
		.honoured = BOTH, .commands = ALL_CMDS },
	[FIELD_CODE] = { .flag = "code", .letter = 'c',
		.type = FIELD_T_STRING, .offset = AT(code.given),
		.arg = "CODE", .help = "the code itself, instead of a file",
		.honoured = EVERY, .commands = CMD_PYTHON },
	[FIELD_CODE_PATH] = { .key = "code.path",
		.type = FIELD_T_STRING, .offset = AT(code.path),
		.arg = "PATH", .help = "where Python code appears inside; the dialect's documented place if not given",
		.honoured = EVERY, .commands = CMD_PYTHON },
	[FIELD_INTERPRETER] = { .flag = "interpreter",
		.type = FIELD_T_STRING, .offset = AT(code.interpreter),
		.arg = "PATH", .help = "what runs the code inside; python3, or /bin/sh for scripts, if not given",
		.honoured = EVERY, .commands = CMD_PYTHON | CMD_SCRIPT },
	[FIELD_PARAM] = { .flag = "param",
		.type = FIELD_T_ENV, .offset = AT(code.params),
		.arg = "NAME=VALUE", .help = "a parameter of the script, as a variable in upper case",
		.honoured = EVERY, .commands = CMD_SCRIPT },
	[FIELD_REPORT_FD] = { .flag = "report-fd",
		.type = FIELD_T_COUNT, .offset = AT(report_fd), .min = 3, .max = 1023,
		.arg = "N", .help = "when the run is over, write what --json says, without the output, to this descriptor",
		.honoured = EVERY, .commands = STARTS },
	[FIELD_TTY] = { .flag = "tty",
		.type = FIELD_T_BOOL, .offset = AT(tty), .fallback = "false",
		.help = "give the command a terminal of its own",
		.honoured = BOTH, .commands = STARTS },
	[FIELD_JSON] = { .flag = "json",
		.type = FIELD_T_BOOL, .offset = AT(json), .fallback = "false",
		.help = "capture the output and print one JSON object that says how it went",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_QUIET] = { .flag = "quiet",
		.type = FIELD_T_BOOL, .offset = AT(quiet), .fallback = "false",
		.help = "no notes and warnings of brig's own on stderr",
		.honoured = ALSO_SSH, .commands = ALL_CMDS },
	[FIELD_CONFIG] = { .flag = "config",
		.type = FIELD_T_STRING, .offset = AT(config),
		.arg = "FILE", .help = "settings from a file, in any of the five dialects",
		.honoured = EVERY, .commands = ALL_CMDS },
	[FIELD_DIALECT] = { .flag = "dialect",
		.type = FIELD_T_STRING, .offset = AT(dialect),
		.arg = "NAME", .help = "what the file is written in: brig, initrunner, rlm, agents or ironclaw",
		.honoured = EVERY, .commands = ALL_CMDS },
};
/* clang-format on */

const struct field *field_by_flag(const char *flag, enum field_id *id)
{
	for (size_t i = 0; i < FIELD_COUNT; i++)
		if (fields[i].flag && str_eq(fields[i].flag, flag)) {
			*id = (enum field_id)i;
			return &fields[i];
		}
	return NULL;
}

const struct field *field_by_letter(char letter, enum field_id *id)
{
	for (size_t i = 0; i < FIELD_COUNT; i++)
		if (fields[i].letter == letter) {
			*id = (enum field_id)i;
			return &fields[i];
		}
	return NULL;
}

const struct field *field_by_key(const char *key, enum field_id *id)
{
	for (size_t i = 0; i < FIELD_COUNT; i++)
		if (fields[i].key && str_eq(fields[i].key, key)) {
			*id = (enum field_id)i;
			return &fields[i];
		}
	return NULL;
}

bool field_repeats(const struct field *f)
{
	return f->type >= FIELD_T_NAMES;
}

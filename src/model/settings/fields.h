/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/fields.h - the field table: one row per setting, and nowhere else.
 *
 * From it come the command-line parser, the environment reader, --help, `brig plan`, the JSON
 * schema, the completion scripts, the option section of the man page and the capability refusal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_id {
	FIELD_POLICY,
	FIELD_BACKEND,
	FIELD_NETWORK,
	FIELD_WORKDIR,
	FIELD_TARGET,
	FIELD_GIT,
	FIELD_SSH_AGENT,
	FIELD_HOME,
	FIELD_HOME_SIZE,
	FIELD_HOME_SEED,
	FIELD_CACHES,
	FIELD_VOLUMES,
	FIELD_VOLUME_SIZE,
	FIELD_TIMEOUT,
	FIELD_KILL_AFTER,
	FIELD_MEMORY,
	FIELD_CPUS,
	FIELD_CPU_SHARES,
	FIELD_PIDS,
	FIELD_DISK,
	FIELD_TMP,
	FIELD_FILES,
	FIELD_OUTPUT,
	FIELD_MOUNT,
	FIELD_READ,
	FIELD_WRITE,
	FIELD_TOOLCHAINS,
	FIELD_ENV,
	FIELD_ENV_PASS,
	FIELD_USER,
	FIELD_PROFILE,
	FIELD_READ_ONLY_ROOT,
	FIELD_TMP_EXEC,
	FIELD_USER_NAME,
	FIELD_WORKSPACE_MODE,
	FIELD_WORKSPACE_APPLY,
	FIELD_LAYERS_SIZE,
	FIELD_MOUNT_ROOTS,
	FIELD_IMAGE,
	FIELD_RUNTIME,
	FIELD_DOCKER_IMAGE,
	FIELD_DOCKER_USER,
	FIELD_DOCKER_RUNTIME,
	FIELD_DOCKER_EXTRA_ARGS,
	FIELD_AUTO_PULL,
	FIELD_SSH_HOST,
	FIELD_SSH_REMOTE_CWD,
	FIELD_SSH_IDENTITY_FILE,
	FIELD_SSH_CONFIG_FILE,
	FIELD_SSH_CONNECT_TIMEOUT,
	FIELD_SSH_CONTROL_PERSIST,
	FIELD_SSH_REMOTE,
	FIELD_SLURM_PARTITION,
	FIELD_SLURM_ACCOUNT,
	FIELD_SLURM_QOS,
	FIELD_SLURM_NODELIST,
	FIELD_SLURM_CONSTRAINT,
	FIELD_SLURM_TIME,
	FIELD_SLURM_WAIT,
	FIELD_SLURM_BRIG,
	FIELD_KUBE_CONFIG,
	FIELD_KUBE_CONTEXT,
	FIELD_KUBE_NAMESPACE,
	FIELD_KUBE_SERVICE_ACCOUNT,
	FIELD_KUBE_RUNTIME_CLASS,
	FIELD_KUBE_NODE_SELECTOR,
	FIELD_KUBE_TOLERATIONS,
	FIELD_KUBE_PULL_SECRETS,
	FIELD_KUBE_HELPER_IMAGE,
	FIELD_KUBE_WORKSPACE,
	FIELD_KUBE_CLAIM,
	FIELD_KUBE_NODE_REACHABLE,
	FIELD_KUBE_USE,
	FIELD_KUBE_TEMPLATE,
	FIELD_KUBE_GPU_RESOURCE,
	FIELD_EGRESS_ALLOW,
	FIELD_EGRESS_DENY,
	FIELD_EGRESS_GROUPS,
	FIELD_EGRESS_ASK,
	FIELD_EGRESS_HTTPS_ONLY,
	FIELD_EGRESS_PORT,
	FIELD_EGRESS_INSPECT,
	FIELD_EGRESS_PASSTHROUGH,
	FIELD_EGRESS_FIELDS,
	FIELD_EGRESS_LABELS,
	FIELD_EGRESS_OTHER_KEYS,
	FIELD_EGRESS_HOST_KEYS,
	FIELD_EGRESS_RESOLVE,
	FIELD_EGRESS_ROOTS,
	FIELD_EGRESS_HOST_SERVICE,
	FIELD_EGRESS_UPSTREAM_PROXY,
	FIELD_EGRESS_UPSTREAM_LOGIN,
	FIELD_EGRESS_TOKENS,
	FIELD_EGRESS_COST,
	FIELD_EGRESS_BUDGETS,
	FIELD_EGRESS_MODELS,
	FIELD_EGRESS_PRICES,
	FIELD_EGRESS_DIRECT,
	FIELD_EGRESS_CLIENT_CERTS,
	FIELD_RATE_DOMAIN,
	FIELD_RATE_TOTAL,
	FIELD_RATE_CONNECTIONS,
	FIELD_RATE_NAMES,
	FIELD_RATE_BYTES_OUT,
	FIELD_RATE_BYTES_IN,
	FIELD_LEAKS_SCAN,
	FIELD_LEAKS_STRICT,
	FIELD_LEAKS_UNREADABLE,
	FIELD_LEAKS_ANSWERS,
	FIELD_LEAKS_RULES,
	FIELD_CREDENTIALS,
	FIELD_CREDENTIAL,
	FIELD_COPIES,
	FIELD_COMPANIONS,
	FIELD_BUILTIN_TOOLS,
	FIELD_LABELS,
	FIELD_PORTS,
	FIELD_GPUS,
	FIELD_GPU,
	FIELD_COMMAND,
	FIELD_IDLE_TTL,
	FIELD_CLEANUP_TTL,
	FIELD_METRICS_TEXTFILE,
	FIELD_AUDIT_ENABLED,
	FIELD_NO_AUDIT,
	FIELD_AUDIT_DIR,
	FIELD_AUDIT_SYNC,
	FIELD_AUDIT_ON_ERROR,
	FIELD_AUDIT_ARGV,
	FIELD_AUDIT_ANCHOR,
	FIELD_AUDIT_AGENT,
	FIELD_AUDIT_MAX_AGE,
	FIELD_AUDIT_MAX_RECORDS,
	FIELD_FULL_ACCESS_OK,
	FIELD_CODE,
	FIELD_CODE_PATH,
	FIELD_INTERPRETER,
	FIELD_PARAM,
	FIELD_REPORT_FD,
	FIELD_TTY,
	FIELD_ARRAY,
	FIELD_JSON,
	FIELD_QUIET,
	FIELD_CONFIG,
	FIELD_DIALECT,
	FIELD_COUNT
};

enum field_type {
	FIELD_T_BOOL,
	FIELD_T_WORD,     /* one of a list; stored as its index in an enum */
	FIELD_T_COUNT,    /* uint64_t */
	FIELD_T_SIZE,     /* uint64_t, bytes */
	FIELD_T_DURATION, /* uint64_t, milliseconds */
	FIELD_T_MILLI,    /* uint64_t, thousandths */
	FIELD_T_STRING,
	FIELD_T_PATH,
	FIELD_T_USER,
	FIELD_T_NAMES,       /* repeatable variable names, through the scrub */
	FIELD_T_STRINGS,     /* repeatable */
	FIELD_T_PATHS,       /* repeatable */
	FIELD_T_MOUNTS,      /* repeatable SRC:DST[:rw] */
	FIELD_T_ENV,         /* repeatable K=V */
	FIELD_T_LABELS,      /* repeatable K=V */
	FIELD_T_EXTRA_ARGS,  /* repeatable flags of `docker run`, checked */
	FIELD_T_PORTS,       /* repeatable [HOST_PORT:]PORT[/PROTOCOL] */
	FIELD_T_COPIES,      /* maps only: a list of {source, target, exclude} */
	FIELD_T_COMPANIONS,  /* maps only */
	FIELD_T_RULES,       /* repeatable rules of model/settings/rule.h */
	FIELD_T_PINS,        /* repeatable HOST=ADDR[:PORT] */
	FIELD_T_LEAKS,       /* repeatable KIND=ACTION */
	FIELD_T_CREDENTIALS, /* maps only */
};

/* Backends, as bits of `honoured`. */
enum {
	ON_NATIVE = 1,
	ON_NONE = 2,
	ON_BWRAP = 4,
	ON_DOCKER = 8,
	ON_SSH = 16,
	ON_SLURM = 32,
	ON_KUBERNETES = 64,
	ON_LASTING =
		128 /* no backend: the daemon's part of a long-lived sandbox, on each of them */
};

/* Commands, as bits of `commands`. */
enum {
	CMD_RUN = 1,
	CMD_EXEC = 2,
	CMD_PLAN = 4,
	CMD_PYTHON = 8,
	CMD_SCRIPT = 16,
	CMD_PROXY = 32,
	CMD_ARRAY = 64
};

#define FIELD_ALL UINT64_MAX

struct field {
	const char *flag;     /* without the dashes; NULL: configuration only */
	const char *key;      /* dotted name in configuration; NULL: command line only */
	const char *variable; /* BRIG_...; NULL: not from the environment */
	enum field_type type;
	char letter;              /* short form of the flag; 0: none */
	bool none;                /* of a number: the word `none` means no limit, stored as 0 */
	bool thousands;           /* of a count: 200k and 1.5m are thousands and millions */
	bool all;                 /* `all` is FIELD_ALL; of a count, 0 is none of them */
	size_t offset;            /* in struct spec */
	uint64_t min, max;        /* of numbers; 0 and 0: any */
	const char *fallback;     /* the default, as text; NULL: empty */
	const char *const *words; /* of FIELD_T_WORD, NULL-terminated */
	unsigned offered;  /* so many of words a run can have, the schema says; 0: all of them */
	const char *arg;   /* what --help calls the value; NULL for a switch */
	const char *alone; /* what the flag means without a value; NULL: it needs one */
	const char *help;
	unsigned honoured, commands;
};

extern const struct field fields[FIELD_COUNT];

const struct field *field_by_flag(const char *flag, enum field_id *id);
const struct field *field_by_letter(char letter, enum field_id *id);
const struct field *field_by_key(const char *key, enum field_id *id);
bool field_repeats(const struct field *f);
bool field_is_number(const struct field *f);
void field_number_text(const struct field *f, uint64_t v, char *out, size_t n); /* as written */

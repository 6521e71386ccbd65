/* SPDX-License-Identifier: Apache-2.0 */
/* model/settings/spec.h - what somebody asked for, as data: every noun of a request in one place.
 *
 * A spec starts with the defaults of the field table, is filled by spec_set (from flags, variables,
 * files, API bodies) and checked as a whole by spec_check. It knows for every setting who set it:
 * an explicitly set one is a request that must be honoured or refused, a default is not. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "model/settings/chat_spec.h"
#include "model/settings/command.h"
#include "model/settings/fields.h"
#include "model/settings/lists.h"

/* A workspace at its own path, and the place for one that has none or cannot have it. */
#define WORKSPACE_SAME "same"
#define WORKSPACE_PLACE "/workspace"

enum home_life { HOME_PRIVATE, HOME_KEEP };
/* SSH_AUTH_SOCK inside; never a mount's place. */
#define SSH_AGENT_INSIDE "/dev/shm/brig-ssh-agent"
enum ssh_agent_use { SSH_AGENT_NONE, SSH_AGENT_GIT, SSH_AGENT_AUTH };
enum git_access { GIT_WRITE, GIT_READ, GIT_NONE };
enum policy { POLICY_READONLY, POLICY_WORKSPACE_WRITE, POLICY_FULL_ACCESS };
enum backend_kind {
	BACKEND_AUTO,
	BACKEND_NATIVE,
	BACKEND_BWRAP,
	BACKEND_DOCKER,
	BACKEND_SSH,
	BACKEND_KUBERNETES,
	BACKEND_NONE,
	BACKEND_SLURM,
};
enum network { NETWORK_NONE, NETWORK_PROXY, NETWORK_BRIDGE, NETWORK_HOST };
enum profile { PROFILE_STRICT, PROFILE_DEFAULT, PROFILE_DEBUG };
enum audit_sync { AUDIT_SYNC_NONE, AUDIT_SYNC_FULL };
enum audit_on_error { AUDIT_REFUSE, AUDIT_END };
enum workspace_mode { WORKSPACE_DIRECT, WORKSPACE_OVERLAY };
enum workspace_apply { APPLY_AUTO, APPLY_ASK, APPLY_NEVER };

struct mount_spec {
	const char *source; /* absolute once spec_check has seen it */
	const char *target;
	bool writable;
};

struct mountlist {
	struct mount_spec *v;
	size_t n;
};

struct limits {
	uint64_t memory;     /* bytes */
	uint64_t cpus;       /* thousandths of a CPU; 0: all of them */
	uint64_t cpu_shares; /* relative weight, 1024 is one share */
	uint64_t pids;
	uint64_t disk;  /* bytes written to the workspace; 0: no limit */
	uint64_t tmp;   /* bytes of /tmp, HOME and /dev/shm together */
	uint64_t files; /* open descriptors of one process */
};

/* The ids inside. AUTO: the caller's own, or 1000 when the caller is root. */
struct user_spec {
	bool given;
	uint32_t uid, gid;
};

/* A host file or folder copied in before the start. */
struct copy_spec {
	const char *source, *target;
	struct strlist exclude; /* globs, against the path and the base name */
};

struct copylist {
	struct copy_spec *v;
	size_t n;
};

struct port_spec {
	uint16_t host, container; /* host 0: any that is free */
	const char *protocol;     /* "tcp", "udp" or "sctp" */
};

enum { PUBLISHED_MAX = 16 }; /* ports of one sandbox */

struct portlist {
	struct port_spec *v;
	size_t n;
};

struct health_spec {
	struct strlist test; /* CMD ARG..., CMD-SHELL LINE, or NONE */
	uint64_t interval, timeout, start_period,
		start_interval; /* milliseconds; 0: the engine's own */
	uint64_t retries;
};

/* A service beside the sandbox, reached by its name. */
struct companion_spec {
	const char *name;
	const char *image; /* NULL: a command of the host's own programs */
	const char *data;  /* where its folder on disk is inside; NULL: it has none */
	const char *user;  /* UID[:GID]; NULL: as the sandbox's own default */
	struct envlist env;
	struct strlist command, post_start;
	struct health_spec health;
	enum network network;
	uint64_t cpus, memory, disk, pids; /* 0: the defaults of a sandbox */
};

struct companionlist {
	struct companion_spec *v;
	size_t n;
};

/* A sandbox with companions and each of these, on a network of their own. */
#define MEMBERS_NET "198.19.254."
struct member_spec {
	const char *name, *address;
};

struct memberlist {
	struct member_spec *v;
	size_t n;
};

struct docker_spec {
	const char *image, *runtime; /* NULL: none named */
	const char *user;            /* "auto", "UID:GID", or "" for the image's own (root) */
	struct strlist extra_args;   /* checked when they were read */
	bool auto_pull;
};

enum ssh_remote { SSH_REMOTE_PLAIN, SSH_REMOTE_BRIG };

struct ssh_spec {
	const char *host, *remote_cwd, *identity_file, *config_file;
	uint64_t connect_timeout, control_persist; /* milliseconds */
	enum ssh_remote remote;
};

struct slurm_spec {
	const char *partition, *account, *qos, *nodelist, *constraint; /* NULL: Slurm's own */
	const char *brig;                                              /* on the nodes */
	uint64_t time, wait; /* milliseconds; 0: no limit */
	/* Of a batch, set by nobody else: the run is this task of a job array that was submitted,
	 * which answers there. NULL: it is none. */
	const char *spool;
	uint64_t array, task; /* array 0: Slurm has forgotten it */
	unsigned holds;       /* bits 1 << enum limit: what Slurm enforces of it */
};

enum kube_workspace { KUBE_COPY, KUBE_EMPTY, KUBE_CLAIM };
enum kube_use { KUBE_USE_AUTO, KUBE_USE_POD, KUBE_USE_SANDBOX, KUBE_USE_CLAIM };
enum kube_node { KUBE_NODE_REFUSE, KUBE_NODE_ACCEPT };

/* Where pods are made and what they are like; NULL: the cluster's own. */
struct kube_spec {
	const char *config; /* absolute once spec_check has seen it */
	const char *context, *name_space, *service_account, *runtime_class;
	const char *helper_image, *claim;
	const char *template; /* SandboxTemplate that a pod is claimed from */
	const char *gpu_resource;
	struct envlist node_selector;
	struct strlist tolerations, pull_secrets;
	enum kube_workspace workspace;
	enum kube_use use;
	enum kube_node node; /* may it be reached from the pod? */
};

/* What one run may ask of the network; 0: no limit. */
struct rate_spec {
	bool spare_domain, spare_total; /* nobody wrote these: not for the shipped groups */
	uint64_t domain, total;         /* requests a minute */
	uint64_t connections, names;    /* at one time; different ones in the whole run */
	uint64_t bytes_out, bytes_in;
};

struct egress_spec {
	struct strlist allow, deny; /* rules, in the text form of model/settings/rule.h */
	struct originlist deny_by;
	struct strlist groups;
	struct strlist passthrough; /* hosts whose TLS is not opened */
	struct strlist fields;     /* HOST NAME: they pass where rules are about methods or paths */
	struct strlist other_keys; /* HOST NAME, HOST ?NAME: may hold a key of somebody else's */
	struct strlist host_keys;  /* HOST TYPE KEY, of hosts with ssh: */
	struct strlist roots;      /* files with further certificates to trust upstream */
	struct envlist resolve;    /* HOST to ADDR[:PORT] */
	struct rate_spec rate;
	bool https_only, inspect;
	bool ask;   /* whoever is there, about a name that no rule allows */
	bool learn; /* of brig learn alone: every public name is open, and what was asked for is
		       told with its path */
	uint64_t port;
	uint64_t host_service;      /* a port of the host's loopback; 0: none */
	const char *upstream_proxy; /* http[s]://HOST:PORT; NULL: none */
	uint64_t tokens, cost;      /* of models; the cost in thousandths of a USD; 0: no limit */
	struct strlist budgets, models, prices; /* egress/budget/budget.h says how they are read */
	const char *upstream_login;  /* the credential that is its user and password; NULL: none */
	struct strlist client_certs; /* HOST FILE: a certificate and its key */
	struct strlist direct;       /* NAME, *.NAME: not through it; PREFIX: where these may be */
};

/* What is packed and cannot be read; labels below a wildcard that look so. */
enum unreadable_action { UNREADABLE_ALLOW, UNREADABLE_WARN, UNREADABLE_BLOCK };

/* What is done about secrets on their way out. */
struct leak_spec {
	bool scan;
	bool strict; /* what cannot be read is blocked */
	enum unreadable_action unreadable, labels;
	uint64_t answers;     /* so much of each is looked at for shapes; FIELD_ALL: all of it */
	struct envlist rules; /* kind of secret to action */
};

enum credential_slot { SLOT_HEADER, SLOT_QUERY, SLOT_COOKIE, SLOT_BASIC, SLOT_SIGV4 };
enum credential_from { FROM_ENVIRONMENT, FROM_FILE, FROM_COMMAND };

struct login_file; /* model/known/login_file.h */

/* A value that only the door knows, and where it may put it. */
struct credential_spec {
	const char *name;     /* and of the variable inside that holds the placeholder */
	struct strlist hosts; /* HOST[:PORT] */
	enum credential_slot slot;
	const char *field;             /* header, parameter or cookie; the user of basic; id, secret
					  or token of sigv4 */
	const char *prefix;            /* in front of the value in a header */
	struct strlist headers;        /* further ones that may hold it; "Bearer " or nothing */
	struct strlist methods, paths; /* none: any */
	struct strlist query;          /* further parameters whose whole value may be {NAME} */
	bool in_path;                  /* {NAME} is replaced in the path as well */
	bool delayed;                  /* the value may have a blank in it: answers are held back */
	enum credential_from from;
	struct strlist source;          /* the variable, the file, or the words of the command */
	const struct login_file *login; /* where the variable is not set; NULL: none */
	const char *git;     /* USER, USER@HOST: whom git names at its hosts, or at that one; NULL:
				it is not for git */
	const char *service; /* it was granted as one of that service's, and its variable may not be
				set; NULL: by its own name */
};

struct credentiallist {
	struct credential_spec *v;
	size_t n;
};

struct audit_spec {
	bool enabled, off; /* off: --no-audit */
	bool argv;
	const char *dir;   /* absolute once spec_check has seen it; NULL: brig's own */
	const char *agent; /* on whose behalf; NULL: not said */
	const char *name;  /* of a sandbox that was opened, for who looks at its record; or NULL */
	enum audit_sync sync;
	enum audit_on_error on_error;
	struct strlist anchor;
	uint64_t max_age; /* milliseconds; 0: any */
	uint64_t max_records;
};

/* What nobody but the command line's own program wants. */
struct cli_settings {
	bool json, quiet;
	uint64_t report_fd;           /* 0: none */
	const char *array;            /* N[%JOBS], as given; NULL: one run */
	const char *config, *dialect; /* as given; NULL: not */
};

/* The sandbox; and, so that one table of settings fills all of it, what is run there at first and
 * how the command line wants to hear of it. A function that needs one part takes that part. */
struct spec {
	struct arena *arena; /* owns every string below */
	struct command command;
	struct cli_settings cli; /* read by src/cli alone */
	enum policy policy;
	enum backend_kind backend;
	enum network network;
	enum profile profile;
	enum workspace_mode workspace_mode;
	enum workspace_apply workspace_apply;
	uint64_t layers_size; /* bytes */
	enum git_access git;
	enum ssh_agent_use ssh_agent;
	enum home_life home;
	uint64_t home_size;             /* bytes */
	struct strlist home_seed;       /* programs whose settings a new kept HOME begins with */
	struct strlist caches, volumes; /* model/request/volume.h reads them */
	uint64_t volume_size;           /* bytes, of each */
	const char *workdir;            /* host folder; NULL: the current one */
	const char *target; /* where it is to appear inside: a path, or WORKSPACE_SAME */
	const char *inside; /* where it does; set by spec_check */
	struct limits limits;
	struct mountlist mounts;
	struct strlist read, write, env_pass;
	struct envlist env;
	struct user_spec user;
	const char *user_name;
	bool read_only_root, tmp_exec, full_access_ok;
	bool toolchains;   /* those below HOME are shown */
	bool no_workspace; /* the dialect shows no folder unless one is declared */

	const char *image, *runtime;
	uint64_t gpus;      /* how many; FIELD_ALL: all of them */
	struct strlist gpu; /* or which */
	struct docker_spec docker;
	struct ssh_spec ssh;
	struct slurm_spec slurm;
	struct kube_spec kube;
	struct egress_spec egress;
	struct leak_spec leaks;
	struct credentiallist credentials;
	struct strlist use_credentials; /* --credential: these alone; none: all of them */
	struct audit_spec audit;
	struct chat_spec chat; /* of an InitRunner role */
	struct strlist mount_roots, builtin_tools;
	struct strlist main_command; /* of a long-lived sandbox */
	struct copylist copies;
	struct companionlist companions;
	struct envlist labels;
	struct portlist ports;
	const char *metrics_textfile;   /* NULL: none */
	uint64_t idle_ttl, cleanup_ttl; /* milliseconds */
	struct strlist notes; /* what a reader wants said that is no error, one line each */

	int dialect_used; /* enum dialect of the --config file or the environment; 0: brig's */
	const char *config_file; /* that of --config, absolute; NULL: none was read */
	bool config_trusted;    /* ... and `brig allow` was said of it as it is; for a role alone */
	unsigned strangers;     /* 1 << enum origin: files that nobody has trusted and that a guest
				   may have written, the project's own among them */
	bool private_workspace; /* set by spec_check: an empty workspace instead of the current
				   folder */
	/* Set by the conductor under HOME_KEEP: the folder that is shown as HOME, and what its
	 * placeholders are made from. NULL: there is none (yet). */
	const char *home_folder;
	const unsigned char *home_secret; /* 32 bytes */
	/* Likewise, where there are caches and volumes: the folder of each, in the order of
	 * volume_of, ended by NULL; that of a plan alone may have gaps. NULL: there are none (yet).
	 */
	const char *const *volume_folders;
	/* Likewise, where spec_has_layer: the folder that takes what is written to the workspace.
	 */
	const char *layer_folder;
	/* Likewise, where the image is one of brig's own: what its root is made of. */
	const struct image_root *image_root;
	/* Set by the monitor of a long-lived sandbox, for the conductor: which layer (32
	 * hexadecimal digits), and whose. NULL: a new one. */
	const char *layer_id, *layer_of;
	/* Set by the monitor of a long-lived sandbox: who is on the network of the sandbox and its
	 * companions (none: there is no such network); whether it is one of the latter, its folder
	 * on disk, and where that is inside. */
	struct memberlist members;
	bool companion;
	const char *sandbox, *instance; /* whose it is: ids of a sandbox and of a state folder */
	const char *data_folder, *data_target;
	/* Likewise: the folder on disk of what outlives a stop (model/outcome/store.h). NULL: none.
	 */
	const char *store;
	bool stays;        /* and that it is one, which is told whose files it works on */
	const char *again; /* for a refusal: the line that would run on the host; may be NULL */
	enum origin origin[FIELD_COUNT];
	const char *where[FIELD_COUNT]; /* "FILE:LINE:COLUMN" or the variable's name; NULL: nothing
					   to say */
};

struct spec *spec_new(struct err *e); /* all defaults; NULL and *e without memory */
struct spec *spec_free(struct spec *s);
DEFINE_CLEANUP(spec, struct spec *, spec_free)
struct spec *spec_clone(const struct spec *from, struct err *e);

/* Sets one field from text. Lists grow by one element a call; the first element of a stronger
 * origin replaces what weaker ones wrote. Maps (env.set, labels) are merged by name instead, and
 * egress.deny only grows. What a weaker origin writes is checked and then dropped. */
int spec_set(struct spec *s, enum field_id id, const char *text, enum origin by, struct err *e);
/* The same replacement for readers that fill a list themselves, and for a list written as empty.
 * false: a stronger origin has written it, leave it alone. */
bool spec_list_begin(struct spec *s, enum field_id id, enum origin by);
int spec_set_key(struct spec *s, const char *key, const char *text, enum origin by, struct err *e);
int spec_set_environment(struct spec *s, char *const *envp, struct err *e); /* BRIG_* variables */
int spec_set_argv(struct spec *s, int argc, char *const *argv, struct err *e); /* copies */

/* The place this process stands in, given so that the check asks no variable. */
struct place {
	const char *cwd, *home; /* home may be NULL */
};

/* Makes paths absolute and refuses what no backend could take. Looks at no file but to tell whether
 * a folder is the home folder, or contains it. */
int spec_check(struct spec *s, const struct place *at, struct err *e);

/* Notes where the last value of a field came from; text is copied. */
int spec_set_where(struct spec *s, enum field_id id, const char *where, struct err *e);

const char *origin_name(enum origin o);
/* Is what this origin has written a stranger's, that may only tighten? */
bool spec_strangers(const struct spec *s, enum origin by);

/* Of a checked spec: does WORKSPACE_PLACE lead to the workspace, which is elsewhere? */
bool spec_links_workspace(const struct spec *s);
/* Would a folder at that path inside hide, or lie in, one of brig's own? */
bool spec_place_taken(const struct spec *s, const char *path);
/* Was it to be at its own path, and is not? */
bool spec_moved_workspace(const struct spec *s);
/* Does what is written to the workspace go to a layer over it? */
bool spec_has_layer(const struct spec *s);

/* What the choice of a backend means; no backend is asked. */
bool spec_on_host(const struct spec *s);    /* the command runs here, outside of any sandbox */
bool spec_over_ssh(const struct spec *s);   /* ... on another host */
bool spec_in_cluster(const struct spec *s); /* ... in a pod */
bool spec_claims_pod(const struct spec *s); /* ... which a SandboxTemplate describes */
bool spec_on_node(const struct spec *s);    /* ... on a node of a Slurm cluster */
bool spec_in_namespaces(
	const struct spec *s); /* ... under this host's kernel; native or bwrap by name */
bool spec_other_programs(const struct spec *s); /* the programs inside are not this host's */
/* In place of auto: the native backend, which honours every setting of native and bwrap. */
void spec_name_native(struct spec *s, enum origin by);
/* Does what a command in a container makes belong to the caller, or, if that is root, to a
 * user whose files root can give away? */
bool spec_keeps_owner(const struct spec *s, uid_t caller);

/* Was it explicitly set? A default, the dialect's included, is not a request. */
bool spec_wrote(const struct spec *s, enum field_id id);
/* The same, without what asks for nothing: a list that was set to empty. */
bool spec_asks(const struct spec *s, enum field_id id);
/* Is it a setting of a sandbox that IronClaw's own words have switched off (disabled, or full
 * access)? Then nobody asks for it. A policy that protects stays a request, and so does a flag. */
bool spec_switched_off(const struct spec *s, enum field_id id);
/* Do both have the same value? Lists are the same only when both are empty. */
bool spec_same(const struct spec *a, const struct spec *b, enum field_id id);

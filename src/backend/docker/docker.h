/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/docker.h - the parts of the docker backend; nobody else includes this.
 *
 * Three processes: brig, a guard (a fork of brig that speaks to the engine and outlives brig's
 * death for as long as it takes to remove the container), and the container itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "backend/docker/engine/engine.h"
#include "backend/kit/net/nearby.h"
#include "backend/kit/plan/plan.h"
#include "base/text/arena.h"
#include "proc/supervisor.h"

#define DOCKER_DEFAULT_IMAGE "python:3.12-slim"
#define DOCKER_GIT "/etc/brig.gitconfig"      /* an image may have an /etc/gitconfig of its own */
#define DOCKER_LABEL_RUN "brig.run"           /* the run's id */
#define DOCKER_LABEL_NONCE "brig.nonce"       /* what a look-alike cannot know */
#define DOCKER_LABEL_SANDBOX "brig.sandbox"   /* of the daemon's: the sandbox's id */
#define DOCKER_LABEL_INSTANCE "brig.instance" /* and the state folder's */

struct tmpfs_want {
	const char *path;
	uint64_t size;
	mode_t mode;
	bool exec;
	bool owned; /* by the user inside */
	bool plain; /* options below are the user's own words */
	const char *options;
};

struct ulimit_want {
	const char *name;
	uint64_t soft, hard;
};

/* What the body says of limits, after extra_args had their word. 0: not said. */
struct tuning {
	uint64_t memory, memory_swap, reservation, swappiness, cpu_shares, cpu_period, cpu_quota,
		nano_cpus, pids, shm, oom_score, stop_timeout;
	bool has_swappiness, has_oom_score, has_stop_timeout, read_only;
	const char *cpuset_cpus, *cpuset_mems, *stop_signal, *hostname;
	uint64_t gpus;        /* how many; FIELD_ALL: all of them */
	const char **gpu_ids; /* which, so many; NULL: the engine chooses */
};

enum docker_user { DOCKER_USER_IDS, DOCKER_USER_IMAGE };

struct backend_plan {
	struct box_plan *box;    /* trees, protected names, variables */
	const struct spec *spec; /* while the plan is made; NULL once it is whole */
	const char *image, *runtime;
	bool auto_pull;
	bool ironclaw;         /* a missing image is explained in its words */
	bool tty;              /* of the command */
	bool publishes;        /* ports */
	bool at_own_path;      /* the workspace was to be there */
	bool movable;          /* it may be elsewhere, as far as the settings tell */
	bool shows_repository; /* it was asked for by name */
	const char **asked;    /* paths inside the repository that were */
	size_t asked_count;
	const char *git;     /* settings for git inside; NULL: none */
	struct plan_ssh ssh; /* over those of the image */
	const char *members; /* lines of /etc/hosts for them; NULL: there are none */
	bool companion;      /* it is one: nobody is root in there */
	enum docker_user user;
	uint32_t uid, gid;
	bool map_home; /* the kept HOME, in the same way */
	bool map_work; /* the workspace is shown with its owner mapped to the user inside: work.c */
	uint32_t disk_uid, disk_gid; /* that owner */
	bool root_asked;             /* for a writable root, by somebody: no dialect's default */
	bool user_auto; /* nobody wrote the ids: an engine in a user namespace may choose better */
	struct tuning tune;
	struct tmpfs_want *tmpfs;
	size_t tmpfs_count;
	struct ulimit_want *ulimits;
	size_t ulimit_count;
	struct envvar *labels; /* as they go to the engine */
	size_t label_count;
};

/* plan.c */
int docker_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
		struct err *e);
/* Do its containers run on this machine's kernel, as far as the runtime's name tells? */
bool docker_shares_kernel(const struct backend_plan *p);
/* The refusal of a workspace that the user inside cannot write to. */
int docker_not_writable(const struct backend_plan *p, struct err *e);
void docker_plan_json(const struct backend_plan *p, struct json *j);
struct backend_plan *docker_plan_free(struct backend_plan *p);
DEFINE_CLEANUP(docker_plan, struct backend_plan *, docker_plan_free)

/* move.c: the workspace at WORKSPACE_PLACE, which is not where the plan had it. false: it cannot be
 * moved, or is not to be. */
bool docker_plan_move(struct backend_plan *p);
/* Is that the target of the workspace, or of the repository around it? */
bool docker_is_work(const struct backend_plan *p, const char *target);

/* plan_extra.c: each allowed flag of extra_args becomes what its row's API field says. */
int docker_plan_extra(struct backend_plan *p, struct err *e);

/* engine_health.c, image.c: the slots of struct backend. */
int docker_health(unsigned ms, char *detail, size_t n);
int docker_pull(const char *ref, void (*note)(void *arg, const char *text), void *arg,
		struct err *e);
int docker_build(const struct image_recipe *r, void (*note)(void *arg, const char *text), void *arg,
		 struct err *e); /* image_build.c */

/* What is known only when a run starts. */
struct body_run {
	const char *id, *nonce;
	bool podman, rootless;
	unsigned api;
	bool tty;
	unsigned short rows, cols; /* of the terminal; 0: unknown */
	const char *files;         /* folder with this run's passwd and group; NULL: none */
	const char *seccomp;       /* the profile, or a file with it; NULL: written in place */
	const char *network;       /* network bridge: what the helper is connected to */
	const char **volumes;      /* of the image: covered by tmpfs */
	size_t volume_count;
	const struct strlist
		*labels;      /* of the image: emptied unless the run sets them; NULL: none */
	const char *image_id; /* what the name meant when it was looked up; NULL: the name */
	const char *work;     /* where the engine finds the workspace; NULL: at its own place */
	const char *home;     /* and the kept HOME */
	const char *door;     /* proxy or bridge: the container whose network this one joins */
	const char *helper;   /* and the image of brig-door */
	const char *filter;   /* as seccomp, for brig-door */
	const char *gate, *gate_inside; /* brig-gate on the host, and in the container */
	bool no_ipv6;                   /* of the host's kernel */
	const char *const *bundles;     /* network proxy: the image's own bundles of certificates */
	size_t bundle_count;
	bool line; /* the gate's line is shown */
};

/* Does brig-door make the network? */
bool docker_has_door(const struct backend_plan *p);

/* Is something of brig's mounted at exactly that path? */
bool docker_is_mounted(const struct backend_plan *p, const char *path);
/* Is the command root inside, who is the caller outside? */
bool docker_is_owner(const struct backend_plan *p, bool rootless, bool podman);
/* Is the gate lent the one capability with which it takes that root's id along into a user
 * namespace? It is gone before there is a command. */
#define DOCKER_LENT "SETFCAP"
bool docker_lends(const struct backend_plan *p, bool rootless, bool podman);

/* body.c: the JSON body of POST /containers/create. Pure. */
void docker_body(const struct backend_plan *p, const struct body_run *r, struct json *j);
/* The same for the container that opens the door and owns the network of the other one. */
void docker_door_body(const struct backend_plan *p, const struct body_run *r, struct json *j);

/* And for one that is never started: nothing of brig's, and nothing mounted. */
void docker_look_body(const struct backend_plan *p, const struct body_run *r, struct json *j);

/* ---- the image ---- */

struct image {
	char id[80];            /* sha256:... */
	char digest[512];       /* REPO@sha256:... where the registry gave one; else the id */
	const char *folder;     /* what it begins in; NULL: it does not say */
	struct strlist command; /* what it runs by itself */
	const char **volumes;
	size_t volume_count;
	struct strlist labels; /* of its own that begin as brig's do */
	struct arena *arena;
};

/* Tells how a pull goes; returns true to give it up. */
typedef bool pull_fn(void *arg, const char *line);

/* Is there the runtime that was asked for (NULL: any), and somebody to enforce limits? */
int engine_suits(struct engine *g, const char *runtime, bool *no_cgroups, struct err *e);

/* The image as the engine has it; pulled first where `pull` allows. */
int image_get(struct engine *g, const char *ref, bool pull, pull_fn *on_progress, void *arg,
	      struct image *ret, struct err *e);

/* ---- the network of one run ---- */

struct bridge {
	char name[64];        /* of the network; "": none was made */
	int follow;           /* tells of new addresses and routes of this machine; -1: nobody */
	struct nearby closed; /* by the helper */
	int port, device; /* indices of the cable's end on this machine, and of the bridge that it
			   * is a port of; 0: none */
};

/* Makes the network that the helper is put into, and no other container. */
int bridge_make(struct engine *g, const char *id, const char *nonce, struct bridge *b,
		struct err *e);
void bridge_remove(struct engine *g, struct bridge *b);
/* Of rootless Podman: a cable that needs no network of the engine's. */
#define BRIDGE_ROOTLESS "slirp4netns:allow_host_loopback=false,enable_ipv6=false"

/* ---- runs that may need tidying up ---- */

/* What was asked of the engine and not answered: it may go on with that when its asker is gone, or
 * its runtime when it is gone itself. */
enum ledger_word {
	LEDGER_QUIET = 'q',    /* nothing */
	LEDGER_MAKING = 'm',   /* to make something: finding nothing does not mean that nothing
				  will be there */
	LEDGER_STARTING = 's', /* to start it: mounts are being made in the workspace */
};

struct ledger {
	int fd; /* of the run's entry, locked; -1: none */
	int dir;
	char id[33];
	enum ledger_word word;
	char path[4096]; /* of the folder */
};

/* Notes a run before anything of it exists; the entry is locked by this process. */
int ledger_open(struct ledger *l, const char *id, const char *nonce, const char *socket,
		struct err *e);
int ledger_file(const struct ledger *l, const char *what, const char *text, struct err *e);
int ledger_bytes(const struct ledger *l, const char *what, const void *p, size_t n, struct err *e);
void ledger_say(struct ledger *l, enum ledger_word word);
/* All of the run is gone: forgets it, and lets go of its placeholders. Unless a request was not
 * answered: then the next brig looks. Returns whether it is forgotten. */
bool ledger_close(struct ledger *l);
void ledger_leave(struct ledger *l); /* something may be left: the next brig looks */
/* Removes what a dead guard has left of this run. Blocks as long as the engine does. */
void ledger_tidy(const char *id);

void work_remove(int dir, const char *id); /* work.c: what work_show made, if it did */

/* Removes containers and network of a run, found by both labels, and what of them has none if a
 * request was not answered. An error when something is left. */
int remove_run(struct engine *g, const char *id, const char *nonce, enum ledger_word word,
	       struct err *e);

/* stray.c: ends what is left of the container with this name, of Podman's and of our own user. */
void stray_end(const char *name);

/* What is told of a writable root that could not be given to the user inside. */
#define DOCKER_ROOTS_OWN                                                                           \
	"the image's own files belong to root, and the command does not: of a writable root it "   \
	"can "                                                                                     \
	"change what the image lets anybody change; docker.user: '0:0' can change all"

/* ---- the door ---- */

#define DOOR_HELPER "brig-door"
#define DOOR_HELPER_INSIDE "/brig-door" /* in a root of brig's own: see helper.c */
#define DOOR_SOCKET_INSIDE "/socket"
#define DOOR_HOSTS "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n"

/* What the helper is asked for first, and its answer: the sockets come along unless it failed. Each
 * tells its own size: the helper is of our own build. */
struct door_order {
	uint32_t size;
	bool router; /* network bridge: it has a cable to the outside */
	struct door_want want;
	bool member;    /* on the network of a sandbox and its companions: its routing socket is
			 * wanted, or its cable, if the router comes along */
	uint32_t place; /* ... as which of them */
};

struct door_answer {
	uint32_t size;
	struct err err;
	int cable, other; /* with a router: indices of the cable's two ends */
};

/* With a router, any number of these follow; each is answered when all of it is closed. */
enum { DOOR_CLOSING_MAX = 64 };
struct door_closing {
	uint32_t size;
	uint32_t n;
	struct rtnl_addr v[DOOR_CLOSING_MAX];
};

/* ---- the guard ---- */

struct guard_start {
	struct backend_plan *plan; /* changed by docker_plan_move alone */
	const char *id;
	bool open;        /* there is no command: they come by ASK_EXEC */
	bool line;        /* the gate can be asked while it is open, or has ports */
	int control;      /* the guard's end */
	int in, out, err; /* the guard's ends of the streams; in is -1 for no input */
	int hold;         /* of placeholders: an engine makes what is missing, as root; -1: none */
	const struct seat *seat; /* among members; NULL: there are none */
	bool tty;                /* all three are one raw terminal, whose size is the container's */
	unsigned short rows, cols;
	bool progress; /* somebody watches: tell how far a pull has come, not only that it began */
};

/* line.c: the refusal of what needs a line where the kernel passes no descriptors on. */
int line_other_kernel(const struct backend_plan *p, struct err *e);

/* guard.c: never returns. */
_Noreturn void guard_main(const struct guard_start *s);

/* ---- stdout and stderr out of one stream (demux.c) ---- */

struct demux {
	unsigned char head[8];
	size_t have;   /* of the head */
	uint32_t left; /* of the frame */
	int stream;    /* 1 or 2, of the frame */
};

/* Takes bytes off *p: returns the stream (1, 2) whose *n bytes at *data come next, 0 when more
 * must come, -EBADMSG for what is no such stream. */
int demux_next(struct demux *d, const char **p, size_t *left, const char **data, size_t *n);

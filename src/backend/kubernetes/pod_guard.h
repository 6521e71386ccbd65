/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/pod_guard.h - the process between brig and a pod. */
#pragma once

#include "backend/kubernetes/kube_note.h"
#include "backend/kubernetes/kubernetes.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "backend/kubernetes/pod_owner.h"
#include "base/bytes/jread.h"
#include "base/text/buf.h"
#include "far/frames.h"
#include "kube/kube.h"
#include "proc/supervisor.h"

enum {
	KUBE_KIND_MAX = 96,
	POD_GUARD_ADDRESS = 64,
	POD_GUARD_REASON = 256,
	POD_GUARD_START_MS = 600000, /* for a pod to run: a node may have to be made for it */
	POD_GUARD_TALK_MS = 60000,
	POD_GUARD_REMOVE_MS = 30000,
};

struct pod_guard_start {
	struct backend_plan *plan;
	const char *id; /* of the run */
	int control;
	bool open;                      /* it stays until it is told to end */
	const struct door_there *there; /* under network proxy */
};

/* What the cluster says of the pod. */
struct pod_seen {
	char uid[KUBE_NAME_MAX], node[256], address[POD_GUARD_ADDRESS]; /* the node's */
	char digest[256];                                               /* of the image */
	bool running, gone;
	bool filling; /* the container that comes first runs */
	bool door;    /* the door's runs */
	bool over;    /* the container, or the pod, has ended */
	bool leaving; /* somebody has it removed: a cluster does when a node is lost */
	bool oom, disk;
	bool no_claim;                 /* a volume that it is to have is nowhere */
	char reason[POD_GUARD_REASON]; /* why it is over, or will not begin; "": nothing is known */
	char waits[POD_GUARD_REASON];  /* what it waits for */
};

/* Whose pod it is, where agent-sandbox makes it. */
struct pod_guard_owner {
	enum owner_kind kind;
	const char *version, *version_of_claims;
	char name[KUBE_NAME_MAX], uid[KUBE_NAME_MAX]; /* of what was made */
	char sandbox_uid[KUBE_NAME_MAX];              /* of the pod's own */
	int watch;
	struct buf line; /* of the watch */
	struct owner_seen seen;
	bool gone;
};

/* The door's line, under network proxy. */
struct pod_guard_door {
	struct kube_streams streams;
	struct frames *frames; /* NULL: there is none, or no longer */
	bool answered;
	struct pod_door_answer answer;
	uint8_t number[POD_NUMBER]; /* that it alone was told */
	unsigned char plan[SHA256_SIZE];
	uint32_t asked, settled; /* the last number that was asked for, and said back */
};

struct pod_guard {
	const struct pod_guard_start *s;
	struct backend_plan *plan;
	char instance[STATE_INSTANCE], inside[KUBE_NAME_MAX], name[OWNER_NAME];
	struct pod_guard_owner owner;
	struct kube *kube;
	const char *space; /* namespace */
	bool made;         /* a pod may be there */
	bool by_policy;    /* its network is closed by a NetworkPolicy, and not by itself */
	int note;          /* of the run, locked; -1 */
	int watch;
	struct buf line; /* of the watch */
	struct pod_seen seen;
	bool filled;         /* the container that comes first was given all there is */
	struct jread *asked; /* the pod, as it was written */
	bool compared;       /* the pod is the one that was asked for, as far as was told */
	char differs[POD_GUARD_REASON]; /* in what it is not, or no longer; "": in nothing */
	struct kube_streams streams;
	struct frames *frames;
	bool answered;
	struct pod_answer answer;
	char last[POD_GUARD_REASON]; /* words of brig-pod's own */
	struct pod_guard_door door;
	struct supervisor_msg end;
	struct { /* words of the pod's, each once, until brig has room for them and what came before
		  * is written */
		uint32_t number;
		bool began, exited, ended; /* to be said */
		bool told_began, told_exited;
		bool oom, pids;
		int status;
		struct supervisor_msg first; /* that it runs, or why not */
		uint32_t door;               /* the number that the door has to say back; 0: none */
		uint64_t since;
	} held[COMMANDS_MAX];
	bool full;      /* brig has no room for what is held */
	unsigned notes; /* that were told */
	struct {        /* terminals, whose size is looked at */
		uint32_t number;
		int slave;
		unsigned short rows, cols;
	} terminals[COMMANDS_MAX];
};

_Noreturn void pod_guard_main(const struct pod_guard_start *s);

/* Tells brig something; true: brig is gone, or has said to end it all. */
bool pod_guard_note(struct pod_guard *g, const char *text);
bool pod_guard_given_up(struct pod_guard *g);
/* 0, or -errno: -EAGAIN where brig has not read what was said before, as one that is stopped. */
int pod_guard_say(const struct pod_guard *g, const struct supervisor_msg *m, int fd);
/* A word of the sandbox itself waits for brig; for nobody who is gone. */
void pod_guard_say_surely(const struct pod_guard *g, const struct supervisor_msg *m);
void pod_guard_clean(char *text); /* from elsewhere: fit to be shown */

/* pod_guard_pod.c: a pod, and that container of it that runs and is what was asked for. */
int pod_guard_make(struct pod_guard *g, struct err *e);
int pod_guard_wait(struct pod_guard *g, const char *container, struct err *e);
int pod_guard_hear_watch(
	struct pod_guard *g); /* what the cluster says now; -errno: nothing more will */
/* Is the pod of this name still the one that was made? What was reached by its name before was. */
int pod_guard_confirm(struct pod_guard *g, struct err *e);
bool pod_guard_remove(struct pod_guard *g); /* true: nothing is left */
/* What others than a pod need as well: a POST, a refusal, a watch and its lines. */
int pod_guard_post(struct pod_guard *g, const char *path, const struct buf *body, const char *what,
		   struct kube_answer *a, struct err *e);
int pod_guard_refused(const struct kube_answer *a, const char *what, struct err *e);
int pod_guard_follow(struct pod_guard *g, const char *path, int *watch, struct buf *line,
		     struct err *e);
int pod_guard_hear_lines(struct pod_guard *g, int watch, struct buf *line,
			 int (*on)(struct pod_guard *g, const struct jread *event));
/* The pod is there, and this is it; whatever is made beside it is made. */
int pod_guard_has_pod(struct pod_guard *g, const struct pod_run *r, const struct jread *pod,
		      struct err *e);

/* pod_guard_owner.c: an agent-sandbox object instead of a pod, if that is to be; and the pod that
 * its controller has made. */
int pod_guard_owner_choose(struct pod_guard *g, struct err *e);
int pod_guard_owner_make(struct pod_guard *g, struct pod_run *r, struct err *e);
/* Its path in the API; NULL name: of all of its kind in the namespace. */
void pod_guard_owner_path(const struct pod_guard *g, const char *name, char *out, size_t n);
/* "GROUP/VERSION/PLURAL" of what is made; "": a pod. */
void pod_guard_owner_kind(const struct pod_guard *g, char out[KUBE_KIND_MAX]);

/* pod_seen.c: pure. */
void pod_look(const struct jread *pod, struct pod_seen *ret);
/* pod_same.c: pure. true: a pod is otherwise than it was asked for, and in what. */
bool pod_differs(const struct jread *asked, const struct jread *seen, char *out, size_t n);
/* Likewise of a pod, or a pod's template, that somebody else has written: it may have lower limits
 * and an image of its own. */
bool pod_breaks_promise(const struct jread *asked, const struct jread *seen, char *out, size_t n);

/* pod_guard_talk.c: the first words with brig-pod. */
int pod_guard_attach(struct pod_guard *g, const char *container, struct err *e);
/* What its answer says: of another version? What was wrong? Cleaned. */
int pod_guard_judge_mark(const struct pod_mark *m, size_t size, struct err *e);
int pod_guard_take_words(const struct err *said, struct err *e);

/* pod_guard_door.c: nothing but under network proxy. */
int pod_guard_door_secret(struct pod_guard *g, const struct pod_run *r, struct err *e);
int pod_guard_door_open(struct pod_guard *g, struct err *e);
void pod_guard_door_seen(struct pod_guard *g); /* it was proven that everything leads there */
/* Asks for all that was decided by now; its number, 0: nobody is to be asked. Then: is it where
 * brig reads it? */
uint32_t pod_guard_door_ask(struct pod_guard *g);
bool pod_guard_door_settled(const struct pod_guard *g, uint32_t number);
size_t pod_guard_door_polls(struct pod_guard *g, struct pollfd *p);
void pod_guard_door_turn(struct pod_guard *g, const struct pollfd *p, size_t n);
void pod_guard_door_leave(struct pod_guard *g);

/* pod_guard_serve.c: to the end, or until the container that comes first is filled. */
void pod_guard_serve(struct pod_guard *g);
int pod_guard_frame(void *arg, const struct frames_head *h, const void *payload);

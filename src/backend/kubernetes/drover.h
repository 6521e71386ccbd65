/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/drover.h - the process between brig and a pod. */
#pragma once

#include "backend/kubernetes/kubernetes.h"
#include "backend/kubernetes/pod/pod_talk.h"
#include "backend/kubernetes/pod_owner.h"
#include "base/bytes/jread.h"
#include "base/files/claim.h"
#include "base/files/state.h"
#include "base/text/buf.h"
#include "kube/kube.h"
#include "far/frames.h"
#include "proc/supervisor.h"

enum {
	KUBE_KIND_MAX = 96,
	DROVER_ADDRESS = 64,
	DROVER_REASON = 256,
	DROVER_START_MS = 600000, /* for a pod to run: a node may have to be made for it */
	DROVER_TALK_MS = 60000,
	DROVER_REMOVE_MS = 30000,
};

struct drover_start {
	struct backend_plan *plan;
	const char *id; /* of the run */
	int control;
	bool open;                      /* it stays until it is told to end */
	const struct door_there *there; /* under network proxy */
};

/* What the cluster says of the pod. */
struct pod_seen {
	char uid[KUBE_NAME_MAX], node[256], address[DROVER_ADDRESS]; /* the node's */
	char digest[256];                                            /* of the image */
	bool running, gone;
	bool filling; /* the container that comes first runs */
	bool door;    /* the door's runs */
	bool over;    /* the container, or the pod, has ended */
	bool leaving; /* somebody has it removed: a cluster does when a node is lost */
	bool oom, disk;
	bool no_claim;              /* a volume that it is to have is nowhere */
	char reason[DROVER_REASON]; /* why it is over, or will not begin; "": nothing is known */
	char waits[DROVER_REASON];  /* what it waits for */
};

/* Whose pod it is, where agent-sandbox makes it. */
struct drover_owner {
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
struct drover_door {
	struct kube_streams streams;
	struct frames *frames; /* NULL: there is none, or no longer */
	bool answered;
	struct pod_door_answer answer;
	uint8_t number[POD_NUMBER]; /* that it alone was told */
	unsigned char plan[SHA256_SIZE];
	uint32_t asked, settled; /* the last number that was asked for, and said back */
};

struct drover {
	const struct drover_start *s;
	struct backend_plan *plan;
	char instance[STATE_INSTANCE], inside[KUBE_NAME_MAX], name[OWNER_NAME];
	struct drover_owner owner;
	struct kube *kube;
	const char *space; /* namespace */
	bool made;         /* a pod may be there */
	bool by_policy;    /* its network is closed by a NetworkPolicy, and not by itself */
	int note;          /* of the run, locked; -1 */
	int watch;
	struct buf line; /* of the watch */
	struct pod_seen seen;
	bool filled;                 /* the container that comes first was given all there is */
	struct jread *asked;         /* the pod, as it was written */
	bool compared;               /* the pod is the one that was asked for, as far as was told */
	char differs[DROVER_REASON]; /* in what it is not, or no longer; "": in nothing */
	struct kube_streams streams;
	struct frames *frames;
	bool answered;
	struct pod_answer answer;
	char last[DROVER_REASON]; /* words of brig-pod's own */
	struct drover_door door;
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

_Noreturn void drover_main(const struct drover_start *s);

/* Tells brig something; true: brig is gone, or has said to end it all. */
bool drover_note(struct drover *d, const char *text);
bool drover_given_up(struct drover *d);
/* 0, or -errno: -EAGAIN where brig has not read what was said before, as one that is stopped. */
int drover_say(const struct drover *d, const struct supervisor_msg *m, int fd);
/* A word of the sandbox itself waits for brig; for nobody who is gone. */
void drover_say_surely(const struct drover *d, const struct supervisor_msg *m);
void drover_clean(char *text); /* from elsewhere: fit to be shown */

/* drover_pod.c: a pod, and that container of it that runs and is what was asked for. */
int drover_make(struct drover *d, struct err *e);
int drover_wait(struct drover *d, const char *container, struct err *e);
int drover_hear_watch(struct drover *d); /* what the cluster says now; -errno: nothing more will */
/* Is the pod of this name still the one that was made? What was reached by its name before was. */
int drover_confirm(struct drover *d, struct err *e);
bool drover_remove(struct drover *d); /* true: nothing is left */
/* What others than a pod need as well: a POST, a refusal, a watch and its lines. */
int drover_post(struct drover *d, const char *path, const struct buf *body, const char *what,
		struct kube_answer *a, struct err *e);
int drover_refused(const struct kube_answer *a, const char *what, struct err *e);
int drover_follow(struct drover *d, const char *path, int *watch, struct buf *line, struct err *e);
int drover_hear_lines(struct drover *d, int watch, struct buf *line,
		      int (*on)(struct drover *d, const struct jread *event));
/* The pod is there, and this is it; whatever is made beside it is made. */
int drover_has_pod(struct drover *d, const struct pod_run *r, const struct jread *pod,
		   struct err *e);

/* drover_owner.c: an agent-sandbox object instead of a pod, if that is to be; and the pod that its
 * controller has made. */
int drover_owner_choose(struct drover *d, struct err *e);
int drover_owner_make(struct drover *d, struct pod_run *r, struct err *e);
/* Its path in the API; NULL name: of all of its kind in the namespace. */
void drover_owner_path(const struct drover *d, const char *name, char *out, size_t n);
/* "GROUP/VERSION/PLURAL" of what is made; "": a pod. */
void drover_owner_kind(const struct drover *d, char out[KUBE_KIND_MAX]);

/* pod_seen.c: pure. */
void pod_look(const struct jread *pod, struct pod_seen *ret);
/* pod_same.c: pure. true: a pod is otherwise than it was asked for, and in what. */
bool pod_differs(const struct jread *asked, const struct jread *seen, char *out, size_t n);
/* Likewise of a pod, or a pod's template, that somebody else has written: it may have lower limits
 * and an image of its own. */
bool pod_breaks_promise(const struct jread *asked, const struct jread *seen, char *out, size_t n);

/* drover_talk.c: the first words with brig-pod. */
int drover_attach(struct drover *d, const char *container, struct err *e);
/* What its answer says: of another version? What was wrong? Cleaned. */
int drover_judge_mark(const struct pod_mark *m, size_t size, struct err *e);
int drover_take_words(const struct err *said, struct err *e);

/* drover_door.c: nothing but under network proxy. */
int drover_door_secret(struct drover *d, const struct pod_run *r, struct err *e);
int drover_door_open(struct drover *d, struct err *e);
void drover_door_seen(struct drover *d); /* it was proven that everything leads there */
/* Asks for all that was decided by now; its number, 0: nobody is to be asked. Then: is it where
 * brig reads it? */
uint32_t drover_door_ask(struct drover *d);
bool drover_door_settled(const struct drover *d, uint32_t number);
size_t drover_door_polls(struct drover *d, struct pollfd *p);
void drover_door_turn(struct drover *d, const struct pollfd *p, size_t n);
void drover_door_leave(struct drover *d);

/* drover_serve.c: to the end, or until the container that comes first is filled. */
void drover_serve(struct drover *d);
int drover_frame(void *arg, const struct frames_head *h, const void *payload);

/* kube_note.c: a run that has something in a cluster. */
int kube_note_write(struct drover *d, struct err *e);
void kube_note_done(struct drover *d, bool clean);
void kube_tidy_run(const char *id); /* what a run has left whose drover was just killed */
void kube_tidy(void);               /* what runs have left whose drover is gone */
int kube_notes_open(void);          /* their folder, or -errno: there never was one */
/* A place in a cluster that a run had. */
struct kube_place_note {
	char text[CLAIM_TEXT];
	const char *context, *space, *config; /* in text; NULL: the usual one */
	const char *kind;                     /* of what a run has there; "": pods */
};
/* The path of a noted kind of thing in the API; rest: its name, or a query. */
void kube_note_path(const char *kind, const char *space, const char *rest, char *out, size_t n);
bool kube_place_read(int folder, const char *name, struct kube_place_note *ret);
int kube_instance(char instance[STATE_INSTANCE], struct err *e);

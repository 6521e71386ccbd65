/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube.h - a Kubernetes API server, asked through brig-kube, a program of its own.
 *
 * brig links no TLS and reads no kubeconfig: brig-kube has both, and forks a process for each
 * conversation with the server. All of them end with the struct kube, and so with its owner.
 *
 * What the server says is an outsider's: bounded in size and time here, of any content. Paths are
 * absolute ("/api/v1/namespaces/x/pods?limit=1"), escaped by the caller (url_put_escaped). Every
 * descriptor is close-on-exec. One thread; nothing here may be called between clone and exec. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "base/text/cleanup.h"
#include "base/text/err.h"

enum {
	KUBE_BODY_MAX = 4 << 20,    /* of a request */
	KUBE_ANSWER_MAX = 16 << 20, /* of an answer */
	KUBE_EVENT_MAX = 4 << 20,   /* of one line of a watch */
	KUBE_STATUS_MAX = 64 << 10, /* of what channel 3 says */
	KUBE_ASK_MS = 30000,        /* where a caller gives no time */
};

/* Where the server is and who asks. NULL everywhere: as kubectl finds it, KUBECONFIG, then
 * ~/.kube/config, then, if there is neither, the service account of the pod we are in. */
struct kube_want {
	const char *kubeconfig; /* one file, or several with colons; each must then exist if it is
				 * the only one */
	const char *context;    /* NULL: current-context */
	const char *namespace;  /* NULL: the context's, else "default" */
};

struct kube;

/* Starts brig-kube, which reads the kubeconfig; no server is connected to yet. */
int kube_open(const struct kube_want *w, struct kube **ret, struct err *e);
struct kube *kube_free(struct kube *k); /* takes NULL; ends all of its streams */
DEFINE_CLEANUP(kube, struct kube *, kube_free)

/* For the record. `context` is "in-cluster" where there is no kubeconfig. Borrowed. */
struct kube_place {
	const char *server, *context, *cluster, *namespace, *user;
};

const struct kube_place *kube_place(const struct kube *k);

/* One request. Tried again, with growing pauses or after the server's own Retry-After, until `ms`
 * are over: on 429 whatever the method; where there was no answer, or one of 500, 502, 503, 504,
 * only what does no harm twice: GET, HEAD, PUT, DELETE, PATCH, and a POST with `again` or `label`.
 *
 * With `label` a POST whose object is there already ("AlreadyExists", its metadata.name) is a
 * success, as 200 with that object, if it has that label with that value: an earlier try was ours.
 */
struct kube_request {
	const char *method, *path;
	const char *type; /* Content-Type; NULL: application/json */
	const char *body; /* NULL: none */
	size_t len;       /* of the body; 0: strlen */
	unsigned ms;      /* for all of it; 0: KUBE_ASK_MS */
	bool again;       /* a POST that does no harm twice, such as a SelfSubjectAccessReview */
	const char *label, *value;
};

struct kube_answer {
	int status;      /* of HTTP, whatever it is: 404 and 409 are answers */
	struct buf body; /* UTF-8 is not promised */
};

/* Blocks. -errno only where no answer could be had: -ETIMEDOUT, -EACCES for credentials that are
 * not to be had, -EKEYREJECTED for a certificate that is not trusted, ... The answer is the
 * caller's: kube_answer_done, or CLEANUP(kube_answer). `ret` must be zeroed or an answer. */
int kube_ask(struct kube *k, const struct kube_request *q, struct kube_answer *ret, struct err *e);
void kube_answer_done(struct kube_answer *a);
static inline void cleanup_kube_answer(struct kube_answer *a)
{
	kube_answer_done(a);
}

/* What a Status object says ("pods \"x\" is forbidden: ..."), made fit for a terminal; else the
 * number. For a message of ours. */
void kube_answer_text(const struct kube_answer *a, char *out, size_t n);

/* Follows a collection: path with its labelSelector or fieldSelector. *fd is the caller's, to read
 * without blocking: one line of JSON an event, none longer than KUBE_EVENT_MAX.
 *
 *   {"type":"RESET"}                    a list begins: what it does not have is gone
 *   {"type":"ADDED","object":{...}}     each of the list, and later what is new
 *   {"type":"SYNCED"}                   the list is complete; from here on as things happen
 *   {"type":"MODIFIED"|"DELETED","object":{...}}
 *   {"type":"FAILED","code":N,"kind":"...","message":"...","hint":"..."}   the last; then EOF
 *
 * Resource versions, bookmarks, 410 (another RESET), reconnecting and credentials are brig-kube's.
 * FAILED: the server refused (code 400 to 499, but 410 and 429), or has not answered for `ms`. A
 * caller that does not read makes the server wait. Closing fd ends it. */
int kube_watch(struct kube *k, const char *path, unsigned ms, int *fd, struct err *e);

/* exec or attach. The path has its query:
 * .../exec?command=...&stdin=1&stdout=1&stderr=1&container=. Blocks until the streams are open, at
 * most `ms` (0: KUBE_ASK_MS); no answer of the server is tried twice, because a command may have
 * begun, but for 429 and a connection that was refused. */
struct kube_streams {
	int in;      /* written; closing it ends stdin. -1: the query has no stdin=1 (or true) */
	int out;     /* read until its end */
	int err;     /* likewise; -1: the query has no stderr=1, or tty=1 */
	int status;  /* SOCK_SEQPACKET: one packet, the object of channel 3, then its end; the end
		      * alone: the connection was lost */
	int version; /* 5: closing `in` is told to the command, and all else goes on. 4: it cannot
		      * be told; closing `in` closes the connection */
};

int kube_attach(struct kube *k, const char *path, unsigned ms, struct kube_streams *ret,
		struct err *e);
void kube_streams_done(struct kube_streams *s); /* closes what is not -1 */

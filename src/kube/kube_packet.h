/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube_packet.h - what brig and brig-kube say to one another.
 *
 * All of it goes over SOCK_SEQPACKET sockets, as packets of a fixed size; what has no fixed size
 * goes beside one, in a memory file that the reader copies before it believes a byte of it.
 *
 *   brig      -> brig-kube   on descriptor 0: who is wanted; answered with the place
 *   brig      -> brig-kube   a job: its kind, with its channel and its streams
 *   brig     <-> a speaker   on the channel: a request, its answer; of an attach: the answer that
 *                            it is open, then the last word
 *   a speaker <-> brig-kube  asks for credentials, is given them */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes/parcel.h"
#include "base/text/buf.h"
#include "base/text/err.h"

enum kube_job_kind { KUBE_ASK, KUBE_WATCH, KUBE_ATTACH, KUBE_JOB_KINDS };
enum { KUBE_IN = 1, KUBE_OUT = 2, KUBE_ERR = 4 };
enum { KUBE_FDS_MAX = 4, KUBE_JOBS_MAX = 64 };

struct kube_job {
	uint32_t kind;    /* enum kube_job_kind */
	uint32_t streams; /* which descriptors come behind the channel, in that order */
};

/* Beside it a memory file with `len` bytes, unless that is 0. */
struct kube_packet {
	int32_t status; /* of HTTP, or the version of the protocol of an attach */
	uint32_t flags; /* of credentials: KUBE_REFUSED */
	uint64_t len;
	uint64_t serial; /* of credentials */
	struct err err;  /* code 0: none */
};

enum { KUBE_REFUSED = 1 }; /* the server did not take the last ones */

/* Sends a packet with a text beside it, or none (NULL). 0 or -errno. */
int kube_packet_send(int sock, struct kube_packet *p, const struct buf *text);
/* Waits until the deadline (clock_us; 0: for ever). -EPIPE: the other side is gone; -EBADMSG, and
 * -EMSGSIZE where the text does not fit. */
int kube_packet_recv(int sock, uint64_t deadline, struct kube_packet *ret, struct buf *text);

/* ---- texts: one function lists the fields, for both directions ---- */

/* What brig-kube is told at its start; "" where there is none. */
struct kube_begin {
	const char *kubeconfig, *context, *namespace; /* of kube_want */
	const char *listed;                           /* KUBECONFIG */
	const char *home, *user;
	const char *service_host, *service_port; /* KUBERNETES_SERVICE_HOST and _PORT */
};

#define KUBE_BEGIN_MARK "brig-kube 1"
void kube_begin_fields(struct parcel *p, struct kube_begin *b);

struct kube_place;
#define KUBE_PLACE_MARK "brig-kube place 1"
void kube_place_fields(struct parcel *p, struct kube_place *v);

/* A request as a speaker reads it; "" for NULL. */
struct kube_letter {
	const char *method, *path, *type, *body, *label, *value;
	size_t len;
	uint64_t ms;
	bool has_body, again;
};

#define KUBE_LETTER_MARK "brig-kube letter 1"
void kube_letter_fields(struct parcel *p, struct kube_letter *l);

/* SPDX-License-Identifier: Apache-2.0 */
/* kube/api/kube_speaker.h - brig-speaker: a process that has one conversation with the API server.
 *
 * Forked by brig-kube, then confined (proc/confine.h): it is nobody, if brig-kube is root's, it
 * writes no file and starts no program. It asks brig-kube for credentials before each request. All
 * of it blocks, never past a deadline (clock_us). */
#pragma once

#include "base/text/buf.h"
#include "base/text/err.h"
#include "base/text/url.h"
#include "kube/api/kube_secret.h"
#include "kube/kube_packet.h"
#include "wire/tls_client.h"

struct speaker {
	int channel;      /* to brig */
	int keeper;       /* to brig-kube */
	int in, out, err; /* brig's streams; -1: none */
	uint16_t port;    /* of the server, the only one that it reaches; 0: none */
	struct buf given; /* what the secret is in */
	struct kube_secret secret;
	uint64_t serial;
	struct url url; /* of the secret's server; its target is a prefix */
	struct tls_client *tls;
	struct client *client; /* the connection; NULL: none */
	bool sent;             /* a byte of the last request may have arrived */
};

/* The whole life of the process; its exit status. */
int speaker_run(struct speaker *s, enum kube_job_kind kind);

/* One try of a request, with its answer's head, which is borrowed until the next. A 401 is tried
 * once more if there are other credentials. `fields` are further lines. */
struct speaker_call {
	const char *method, *target, *type, *body, *fields, *upgrade;
	size_t len;
};

int speaker_try(struct speaker *s, const struct speaker_call *c, uint64_t deadline,
		const struct http1_answer **ret, struct err *e);
void speaker_hang_up(struct speaker *s);

/* ... and its body. May it be tried again? Then *pause is for how long to wait, in microseconds. */
struct speaker_result {
	int status; /* 0: no answer */
	uint64_t retry_after;
};

uint64_t speaker_pause(unsigned tries, const struct speaker_result *r);
uint64_t speaker_retry_after(const struct http1_answer *a);

/* Waits; false when brig has gone meanwhile (fd is a socket to it). */
bool speaker_sleep(int fd, uint64_t us);

/* The three kinds of jobs. Each has read its letter. */
void speaker_ask(struct speaker *s, const struct kube_letter *l);
void speaker_watch(struct speaker *s, const struct kube_letter *l);
void speaker_attach(struct speaker *s, const struct kube_letter *l);

/* A packet that says what failed. */
void speaker_fail(struct speaker *s, const struct err *e);

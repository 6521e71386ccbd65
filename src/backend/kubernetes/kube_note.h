/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kubernetes/kube_note.h - what a run has in a cluster, noted here for whoever removes it
 * when its guard was killed. */
#pragma once

#include "base/files/claim.h"
#include "base/files/state.h"
#include "base/text/err.h"

struct pod_guard;

int kube_note_write(struct pod_guard *g, struct err *e);
void kube_note_done(struct pod_guard *g, bool clean);

/* Removes what a run has left whose guard was just killed, or what all of them have whose guard
 * is gone. The latter costs one look into a folder when there are none. */
void kube_tidy_run(const char *id);
void kube_sweep(void);

int kube_notes_open(void); /* their folder, or -errno: there never was one */

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

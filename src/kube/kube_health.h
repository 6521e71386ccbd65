/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube_health.h - is a cluster ready for sandboxes, row by row, and what to do where it is
 * not. For a doctor.
 *
 * Asks, and changes nothing: rights by SelfSubjectAccessReview, admission by a pod that the server
 * only pretends to make (dryRun). What the cluster says is shown as text that is fit for a
 * terminal. */
#pragma once

#include "kube/kube.h"

enum kube_state { KUBE_PASS, KUBE_WARN, KUBE_FAIL, KUBE_SKIP };

enum kube_row_id {
	KUBE_ROW_SERVER,    /* it answers, and its version */
	KUBE_ROW_RIGHTS,    /* each verb that a run needs */
	KUBE_ROW_ADMISSION, /* a pod such as a run's would be let in */
	KUBE_ROW_POLICIES,  /* NetworkPolicy objects can be made */
	KUBE_ROW_RUNTIME,   /* the runtime class that is asked for */
	KUBE_ROW_SANDBOXES, /* agent-sandbox's kinds */
	KUBE_ROW_CLOCK,     /* the server's and ours */
	KUBE_ROWS
};

struct kube_row {
	enum kube_state state;
	char detail[384], hint[256]; /* "": none */
};

struct kube_health_want {
	struct kube_want where;
	const char *runtime_class; /* NULL: none */
	unsigned ms;               /* for all of it; 0: 10 seconds */
};

extern const char *const kube_row_names[KUBE_ROWS]; /* "kubernetes", "kubernetes_rights", ... */

/* Always fills all rows; those behind a server that does not answer are KUBE_SKIP. */
void kube_examine(const struct kube_health_want *w, struct kube_row rows[KUBE_ROWS]);

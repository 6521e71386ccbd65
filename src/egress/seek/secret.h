/* SPDX-License-Identifier: Apache-2.0 */
/* egress/seek/secret.h - a value that must not be seen, and the forms it could take on the way.
 *
 * How these are written is not known here: escapes are undone before anything is compared (view.h).
 *
 * Pure. The values are borrowed from their holder, which keeps them in locked memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/arena.h"
#include "base/text/err.h"
#include "egress/rules/host.h"

/* Shorter ones are refused as injectable: they would be found everywhere, and could be guessed. */
#define SECRET_MIN 16
#define SECRET_MAX 4096
#define SECRET_GROWS 2   /* no form has more bytes for one */
#define SECRET_ESCAPED 6 /* nor do most writers make more of one byte of a value */
#define SECRET_SHOWS                                                                               \
	16 /* so many characters, and no fewer, may show in how long a search takes                \
	    */
#define SECRET_TAIL (SECRET_GROWS * SECRET_SHOWS) /* bytes in which every form has them */

struct secret {
	const char *name; /* shown in records; never the value */
	const char *value;
	size_t len;
	const char *placeholder; /* what stands for it inside; NULL: none */
};

enum secret_form {
	SECRET_RAW,
	SECRET_BASE64,     /* three alignments, without the bits a neighbour shares */
	SECRET_BASE64_URL, /* where it differs */
	SECRET_HEX,        /* either case */
	SECRET_PLUS,       /* blanks as forms have them */
	SECRET_READ,       /* what is left where something in it reads as an escape */
	SECRET_FORMS
};

struct variant {
	enum secret_form form;
	const char *p;
	size_t n;
	bool caseless;
};

struct variants {
	struct variant *v;
	size_t n;
	size_t longest;
};

/* The variants of several secrets. */
struct needle {
	size_t secret;
	struct variant v;
};

struct needles {
	struct needle *v;
	size_t n;
	size_t longest; /* of the variants */
};

int needles_new(struct arena *a, const struct secret *secrets, size_t n, struct needles *ret,
		struct err *e);
/* Do the n->v.n bytes at p equal the variant? `caseless`: in any case, whatever the form. */
bool needle_is(const struct needle *n, const char *p, bool caseless);

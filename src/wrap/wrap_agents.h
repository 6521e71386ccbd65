/* SPDX-License-Identifier: Apache-2.0 */
/* wrap/wrap_agents.h - the coding agents that `brig wrap` knows: what each is given, and why.
 *
 * Data alone: nothing in brig asks for one of them by its name. */
#pragma once

#include <stdbool.h>

/* In an argument: the name of the first credential that it gets. */
#define WRAP_KEY "{key}"

/* Something that is said to an agent, and the reason. */
struct wrap_word {
	const char *text, *why;
};

struct wrap_agent {
	const char *name;    /* of `brig wrap NAME`, and of its program */
	const char *title;   /* what people call it */
	const char *install; /* a way to get it */
	/* Credentials (model/credentials.h): the first that there is, or each. The hosts that they
	 * are bound to are opened. */
	const char *const *credentials;
	bool each;
	const char *const *hosts; /* what it needs besides; may be NULL */
	const char *seed;         /* of --home-seed */
	/* Arguments in front of the caller's own; variables. */
	const struct wrap_word *arguments, *variables;
	/* Variables that lead it to another server: brig would send the key to the vendor's. */
	const char *const *elsewhere;
	const char
		*login; /* how else the key comes about, behind "export NAME"; NULL: it does not */
	const char *logged_in; /* a file below HOME with a login that is of no use here, unless one
				* of the credentials is in it; NULL: it has none */
	const char *remark;    /* for --list; NULL: none */
};

extern const struct wrap_agent wrap_agents[]; /* ended by one without a name */

const struct wrap_agent *wrap_agent_find(const char *name); /* NULL: there is no such */

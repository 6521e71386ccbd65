/* SPDX-License-Identifier: Apache-2.0 */
/* apps/wrap/wrap_agents.h - the coding agents that `brig wrap` knows: what each is given, and why.
 *
 * Data alone: nothing in brig asks for one of them by its name. */
#pragma once

#include <stdbool.h>

/* In an argument: the name of the first credential that it gets. */
#define WRAP_KEY "{key}"

/* Something that is said to an agent, and the reason. */
struct wrap_word {
	const char *text, *why;
	const char *with, *without; /* only where its first credential is this one, or is not; NULL:
				     * in any case */
};

struct wrap_agent {
	const char *name;    /* of `brig wrap NAME`, and of its program */
	const char *title;   /* what people call it */
	const char *install; /* a way to get it */
	/* Credentials (model/dialect/credentials.h): the first that there is, or each. The hosts
	 * that they are bound to are opened. */
	const char *const *credentials;
	bool each;
	const char *const *beside; /* pairs: a credential, and a second that it needs; may be NULL
				    */
	const char *const *hosts;  /* what it needs besides; may be NULL */
	const char *const
		*chatter; /* hosts, or *.DOMAIN, that it asks on every run, for updates and
			   * telemetry: that they are refused is no news; may be NULL */
	const char *seed; /* of --home-seed */
	/* Arguments in front of the caller's own; variables. */
	const struct wrap_word *arguments, *variables;
	bool hides_git; /* its shell keeps git from the settings outside of the repository: whose
			 * the commits are is said by variables */
	/* Variables that lead it to another server: brig would send the key to the vendor's. */
	const char *const *elsewhere;
	const char
		*login; /* how else the key comes about, behind "export NAME"; NULL: it does not */
	const char *logged_in; /* a file below HOME with a login that is of no use here, unless one
				* of the credentials is in it; NULL: it has none */
	const char *remark;    /* for --list; NULL: none */
};

extern const struct wrap_agent wrap_agents[]; /* ended by one without a name */

bool wrap_word_fits(const struct wrap_word *w, const char *key); /* key: the first credential */
/* Is there an argument (or a variable) for this credential alone? */
bool wrap_is_special(const struct wrap_agent *a, const char *name, bool arguments);
const char *wrap_beside(const struct wrap_agent *a, const char *key); /* NULL: it needs no second */
const struct wrap_agent *wrap_agent_find(const char *name);           /* NULL: there is no such */

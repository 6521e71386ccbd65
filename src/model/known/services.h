/* SPDX-License-Identifier: Apache-2.0 */
/* model/known/services.h - APIs that take a key: their hosts, where the key goes, and the variables
 * that their vendors' clients read it from.
 *
 * Data alone: model/dialect/credentials.c makes credentials of it, so that a user names the service
 * (`--credential github`) or the variable (`--credential GITHUB_TOKEN`) and nothing more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "model/known/login_file.h"

enum { SERVICE_VARIABLES = 3, SERVICE_HOSTS = 4, SERVICE_SLOTS = 2 };

/* A service whose clients want two keys has two rows, one beneath the other. */
struct service {
	const char *name;
	const char *variables[SERVICE_VARIABLES + 1]; /* of each one a credential */
	const char *hosts[SERVICE_HOSTS + 1];         /* none: every customer has another */
	/* Where the key goes: "NAME: PREFIX" for a header, "basic USER" for the password of that
	 * user, "?NAME" for a parameter of the query, "sigv4 id", "sigv4 secret" and "sigv4
	 * token" for the parts of a key that signs. Further ones are headers. */
	const char *slots[SERVICE_SLOTS + 1];
	const char *git;                /* USER@HOST of git over HTTPS, USER for one of all its
					   hosts; NULL: none */
	const char *path;               /* all that it is for of the host; NULL: everything */
	const struct login_file *login; /* where the variable is not set; NULL: nowhere */
	bool ironclaw;                  /* one of those that runs of the IronClaw dialect have */
};

extern const struct service services[]; /* ended by one without a name */

/* The row that has this variable; NULL: none. */
const struct service *service_of_variable(const char *variable);
/* The first row of that name; NULL: none. */
const struct service *service_find(const char *name);
/* The known name that was probably meant; NULL: none is near. */
const char *service_nearest(const char *name);

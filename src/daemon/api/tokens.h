/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/api/tokens.h - who may call over TCP: a file with a line a token,
 *
 *	NAME SCOPES SHA256-HEX [ceiling=FILE] [sandboxes=N]
 *
 * which must be the daemon's own and closed to others. It is read again when it has changed; one
 * that cannot be read then lets nobody in. NAME is the tenant. The token itself is nowhere. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text/cleanup.h"
#include "base/text/err.h"

enum token_scope { SCOPE_READ = 1, SCOPE_RUN = 2, SCOPE_ADMIN = 4 };

enum {
	TOKEN_SIZE = 49, /* "brig_", 43 characters, NUL */
	TENANT_SIZE = 64,
	SANDBOXES_MOST = 256, /* of a tenant */
};

struct token {
	char tenant[TENANT_SIZE];
	unsigned scopes; /* run includes read, admin both */
	unsigned char digest[32];
	char *ceiling;      /* path; NULL: the daemon's own */
	unsigned sandboxes; /* that the tenant may have; 0: as many as any */
};

struct tokens;

int tokens_open(const char *path, struct tokens **ret, struct err *e);
/* One new token that is in no file, and gone with the process. */
int tokens_lone(const char *name, char token[TOKEN_SIZE], struct tokens **ret, struct err *e);
struct tokens *tokens_free(struct tokens *t);
DEFINE_CLEANUP(tokens, struct tokens *, tokens_free)

/* Whose token this is; NULL: nobody's. Takes the same time whatever is wrong with it. Borrowed
 * until the next call. */
const struct token *tokens_find(struct tokens *t, const char *token, size_t n);

/* Is there still a token with this sum, of this tenant and with these scopes? */
bool tokens_holds(struct tokens *t, const unsigned char digest[32], const char *tenant,
		  unsigned scopes);
/* How many this tenant may have: the least that a line of its says. */
unsigned tokens_sandboxes(struct tokens *t, const char *tenant);
/* The first of this tenant's; NULL: it has none. Borrowed until the next call. */
const struct token *tokens_of(struct tokens *t, const char *tenant);

/* Nobody writes to the file now: who does so in place leaves it empty for a moment. */
bool tokens_settled(struct tokens *t);
/* The file can be read, is settled, and has none of this tenant's. */
bool tokens_lacks(struct tokens *t, const char *tenant);

/* The lines of one text, for tokens_open and its fuzzer. *ret is malloc's. */
int tokens_parse(const char *text, size_t n, struct token **ret, size_t *count, struct err *e);
void tokens_drop(struct token *v, size_t n);

bool tenant_name_ok(const char *name);
int scopes_parse(const char *words, size_t n, unsigned *ret); /* "read,run"; 0 or -EINVAL */

/* Makes a token and adds its line to the file, which is made if it is not there. */
int tokens_add(const char *path, const char *name, const char *scopes, char token[TOKEN_SIZE],
	       struct err *e);
/* Takes every token of that name out of the file: how many, or -ENOENT. Whoever adds one meanwhile
 * waits; whoever reads sees the file as it was or as it will be. */
int tokens_remove(const char *path, const char *name, struct err *e);
/* Those of the file, in its order; *ret as tokens_parse has it. */
int tokens_list(const char *path, struct token **ret, size_t *count, struct err *e);

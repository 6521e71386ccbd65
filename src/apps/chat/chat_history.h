/* SPDX-License-Identifier: Apache-2.0 */
/* apps/chat/chat_history.h - what was said in a conversation, and the file it is kept in.
 *
 * Messages are kept as the JSON that is sent. The file is in brig's state, mode 0600, and replaced
 * as a whole; the newest SESSIONS_MAX are kept. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "apps/chat/chat_events.h"
#include "base/bytes/json.h"
#include "base/text/buf.h"
#include "base/text/err.h"

enum {
	HISTORY_MAX = 48 << 20,  /* bytes of all messages */
	HISTORY_MESSAGES = 8192, /* and how many */
	SESSIONS_MAX = 100,
	SESSION_ID_SIZE = 33,
};

struct chat_history {
	char id[SESSION_ID_SIZE];
	const char *role, *folder; /* of the role's file and of the work, absolute; borrowed */
	char **v;                  /* each a message as JSON, owned */
	size_t n, bytes;
	bool old; /* it was read from a file */
};

int history_init(struct chat_history *h, const char *role, const char *folder, struct err *e);
void history_done(struct chat_history *h);

int history_user(struct chat_history *h, const char *text, struct err *e);
int history_answer(struct chat_history *h, const struct chat_answer *a, struct err *e);
/* What a call came to. */
int history_result(struct chat_history *h, const struct chat_call *c, const char *text, size_t n,
		   struct err *e);
void history_write(const struct chat_history *h, struct json *j); /* into an open array */

int history_save(const struct chat_history *h, struct err *e);
/* The one with this id, or (NULL) the newest of this role and folder. */
int history_load(struct chat_history *h, const char *id, struct err *e);

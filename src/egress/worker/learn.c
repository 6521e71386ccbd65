/* SPDX-License-Identifier: Apache-2.0 */
/* egress/worker/learn.c - what a request says, as a rule could name it: for brig learn, which opens
 * every public name, and is told by nobody else.
 *
 * A path that no rule could name is not told at all, and neither is a query: a record of either
 * would keep the secrets of others. */
#include <stdlib.h>
#include <string.h>

#include "egress/rules/git_request.h"
#include "egress/rules/path.h"
#include "egress/worker/worker.h"

#define SHOWN 200 /* bytes of a path */

/* As far as it goes, but never a piece of a segment: a rule ends at the edge of one. */
static void put_path(char *out, const char *before, const char *path, size_t n)
{
	size_t head = strlen(before);

	if (n > SHOWN)
		for (n = SHOWN; n && path[n - 1] != '/';)
			n--;
	memcpy(out, before, head);
	memcpy(out + head, path, n);
	out[head + n] = '\0';
}

static void learn_path(const struct egress_head *h, bool websocket, char *out)
{
	CLEANUP(buf) struct buf path = BUF_INIT(PATH_MAX_LEN + 1);
	struct git_request g;

	if (websocket) /* whatever its path is like */
		put_path(out, "ws:", "", 0);
	if (path_normalise(path_of_target(h->target), &path) != PATH_OK || path.failed)
		return;
	if (websocket) {
		put_path(out, "ws:", buf_str(&path), path.len);
		return;
	}
	git_request_read(h->method, buf_str(&path), h->target, &g);
	if (g.use && g.repo <= SHOWN)
		put_path(out, g.use == GIT_USE_PUSH ? "push:" : "fetch:", buf_str(&path), g.repo);
	else if (!g.writes)
		put_path(out, "", buf_str(&path), path.len);
}

/* Separated by blanks, which no name has. What finds no room counts as a request that such rules
 * cannot be kept for. */
static void learn_field(char *out, struct egress_text name)
{
	size_t at = strlen(out);

	if (out[0] == '*')
		return;
	if (at + name.n + 1 > EGRESS_LEARN_FIELDS) {
		memcpy(out, "*", 2);
		return;
	}
	if (at)
		out[at++] = ' ';
	memcpy(out + at, name.p, name.n);
	out[at + name.n] = '\0';
}

struct learned *learn_request(const struct worker *k, const struct host *host,
			      const struct egress_head *h, bool websocket, bool second)
{
	struct learned *l = k->plan->egress.learn ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	learn_path(h, websocket, l->path);
	for (size_t i = 0; i < h->n_fields && !second; i++)
		if (!egress_field_passes(k->rules, host, h->fields[i].name))
			learn_field(l->fields, h->fields[i].name);
	if (second)
		memcpy(l->fields, "*", 2);
	return l;
}

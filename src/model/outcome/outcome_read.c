/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/outcome_read.c - the object of --json, as another brig wrote it, taken into an
 * outcome.
 *
 * It is believed as far as that brig is, read strictly, and everything in it is bounded. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/outcome/outcome.h"

#define LIST_MAX 4096  /* more than another brig lists */
#define COUNTED_MAX 64 /* of one are counted with it */

static bool find_kind(const char *name, enum outcome_kind *ret)
{
	for (int k = 0; name && k < OUTCOME_KINDS; k++)
		if (str_eq(outcome_name((enum outcome_kind)k), name)) {
			*ret = (enum outcome_kind)k;
			return true;
		}
	return false;
}

static void read_error(const struct jread *v, struct err *e)
{
	const char *code = jread_str(v, "code"), *what = jread_str(v, "what"),
		   *hint = jread_str(v, "hint");
	enum err_kind kind = ERR_INTERNAL;

	for (int k = 0; code && k < ERR_KINDS; k++)
		if (str_eq(err_kind_name((enum err_kind)k), code))
			kind = (enum err_kind)k;
	(void)err_set(e, kind, EREMOTEIO, "%s", what ? what : "no reason was given");
	if (hint)
		(void)err_hint(e, "%s", hint);
}

static void read_denials(const struct jread *v, struct outcome *o)
{
	const struct jread *denied = jread_get(v, "denials"),
			   *dropped = jread_get(v, "denials_dropped");

	for (size_t i = 0; i < jread_count(denied) && i < LIST_MAX; i++) {
		const struct jread *d = jread_at(denied, i);
		const char *kind = jread_str(d, "kind"), *target = jread_str(d, "target"),
			   *reason = jread_str(d, "reason");
		int64_t left;

		if (!kind || !target || !reason)
			continue;
		left = jread_int(d, "count", 1);
		for (int k = 0; k == 0 || (k < COUNTED_MAX && left > 0); k++, left--)
			outcome_deny(o, kind, target, reason);
		if (left > 0)
			outcome_drop(o, kind, (uint64_t)left);
	}
	for (int c = 0; c < DENIAL_CLASSES; c++) {
		int64_t n =
			c == DENIAL_FOLDER
				? 0
				: jread_int(dropped, denial_class_kind((enum denial_class)c), 0);

		if (n > 0)
			outcome_drop(o, denial_class_kind((enum denial_class)c), (uint64_t)n);
	}
}

void outcome_read_lists(const struct jread *v, struct outcome *o)
{
	const struct jread *hit = jread_get(v, "limits_hit");

	for (size_t i = 0; i < jread_count(hit) && i < LIST_MAX; i++)
		for (int l = 0; l < LIMIT_COUNT; l++) {
			const char *name = jread_text(jread_at(hit, i));

			if (name && str_eq(name, limit_name((enum limit)l)))
				outcome_hit(o, (enum limit)l);
		}
	read_denials(v, o);
}

int outcome_read_end(const struct jread *v, struct outcome *o, struct err *e)
{
	enum outcome_kind kind;

	if (!find_kind(jread_str(v, "outcome"), &kind))
		return err_set(e, ERR_INTERNAL, EPROTO, "no outcome is reported");
	o->kind = kind;
	o->exit_code = (int)jread_int(v, "exit_code", 0) & 0xff;
	o->signal = (int)jread_int(v, "signal", 0) & 0x7f;
	o->by_itself = kind == OUTCOME_CANCELLED; /* that brig has judged it */
	if (kind == OUTCOME_REFUSED || kind == OUTCOME_FAILED)
		read_error(jread_get(v, "error"), &o->error);
	return 0;
}

static void read_layer(const struct jread *v, struct outcome *o)
{
	const struct jread *layer = jread_get(v, "layer");
	const char *id = jread_str(layer, "id"), *kept = jread_str(layer, "kept");

	if (!id)
		return;
	o->layer = arena_strdup(o->arena, id);
	o->layer_changed = (uint64_t)jread_int(layer, "changed", 0);
	o->layer_more = jread_bool(layer, "more");
	o->layer_tried = jread_get(layer, "applied") != NULL;
	o->layer_applied = (uint64_t)jread_int(layer, "applied", 0);
	o->layer_left = (uint64_t)jread_int(layer, "left", 0);
	if (kept)
		(void)err_set(&o->layer_kept, ERR_POLICY, EEXIST, "%s", kept);
}

int outcome_read(const struct jread *v, struct outcome *o, struct err *e)
{
	const struct jread *asked = jread_get(jread_get(v, "unresolved"), "names"),
			   *trust = jread_get(v, "changed_trust"), *hints = jread_get(v, "hints");
	const char *id = jread_str(v, "id");

	if (outcome_read_end(v, o, e) < 0)
		return -e->code;
	outcome_read_lists(v, o);
	read_layer(v, o);
	(void)snprintf(o->id, sizeof(o->id), "%s", id ? id : "");
	o->out.truncated = jread_bool(v, "stdout_truncated");
	o->err.truncated = jread_bool(v, "stderr_truncated");
	o->unsettled = jread_bool(v, "unsettled");
	for (size_t i = 0; i < jread_count(asked) && i < LIST_MAX; i++)
		if (jread_text(jread_at(asked, i)))
			outcome_asked(o, jread_text(jread_at(asked, i)));
	o->questions = (uint64_t)jread_int(jread_get(v, "unresolved"), "questions", 0);
	for (size_t i = 0; i < jread_count(trust) && i < LIST_MAX; i++) {
		const char *path = jread_str(jread_at(trust, i), "path"),
			   *reason = jread_str(jread_at(trust, i), "reason");

		if (path && reason)
			outcome_trust(o, path, reason);
	}
	o->trust_more = (uint64_t)jread_int(v, "changed_trust_more", 0);
	for (size_t i = 0; i < jread_count(hints); i++)
		outcome_hint(o, jread_text(jread_at(hints, i)));
	return 0;
}

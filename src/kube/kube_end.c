/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube_end.c - how a command ended, from the Status object of channel 3.
 *
 *   {"status":"Success"}                                          0
 *   {"status":"Failure","reason":"NonZeroExitCode",
 *    "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}  3
 *   {"status":"Failure","message":"..."}                          it did not start, or was lost */
#include <stdio.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "kube/kube.h"

static bool says(const struct jread *v, const char *key, const char *word)
{
	const char *said = jread_str(v, key);

	return said && str_eq(said, word);
}

static const char *exit_code(const struct jread *root)
{
	const struct jread *causes = jread_get(jread_get(root, "details"), "causes");
	const char *found = NULL;

	if (!says(root, "reason", "NonZeroExitCode"))
		return NULL;
	for (size_t i = 0; i < jread_count(causes); i++)
		if (says(jread_at(causes, i), "reason", "ExitCode")) {
			if (found)
				return NULL; /* two would be a guess */
			found = jread_str(jread_at(causes, i), "message");
		}
	return found;
}

static void kube_end_explain(const char *text, struct kube_end *ret)
{
	CLEANUP(buf) struct buf b = BUF_INIT(sizeof(ret->why));

	clean_put(&b, text, utf8_cut(text, strnlen(text, sizeof(ret->why) - 1)));
	(void)snprintf(ret->why, sizeof(ret->why), "%s", b.failed ? "?" : buf_str(&b));
}

void kube_end_read(const char *text, size_t n, struct kube_end *ret)
{
	CLEANUP(jread) struct jread *root = NULL;
	struct err e = { 0 };
	const char *said;
	uint64_t code;

	*ret = (struct kube_end){ 0 };
	if (!n || n > KUBE_STATUS_MAX) {
		kube_end_explain(n ? "the status of the command is too long"
				   : "the connection was lost",
				 ret);
		return;
	}
	if (jread_parse(text, n, &root, &e) < 0 || jread_kind(root) != JREAD_OBJECT) {
		kube_end_explain("the status of the command is not readable", ret);
		return;
	}
	ret->known = says(root, "status", "Success");
	said = exit_code(root);
	if (!ret->known && says(root, "status", "Failure") && said && num_count(said, &code) == 0 &&
	    code <= 255 && code > 0) {
		ret->known = true;
		ret->code = (int)code;
	}
	said = jread_str(root, "message");
	if (!ret->known)
		kube_end_explain(said && said[0] ? said : "the command failed without a word", ret);
}

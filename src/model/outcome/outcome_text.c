/* SPDX-License-Identifier: Apache-2.0 */
/* model/outcome/outcome_text.c - an outcome as one text, in the form InitRunner's tools document;
 * under RLM Code a run that did not end by itself has that one's words. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/outcome/outcome.h"

#define TEXT_MAX ((size_t)3 << 30)
#define CUT "\n[truncated]"

static void block(struct buf *b, const char *head, const struct stream *s)
{
	if (!s->data.len)
		return;
	buf_printf(b, "%s%s:\n", b->len ? "\n" : "", head);
	buf_add(b, s->data.data, s->data.len);
}

/* Cuts after so many characters; bytes that are no UTF-8 count one each. */
static void outcome_text_cut(struct buf *b, size_t max)
{
	size_t at = 0, n = 0;

	while (at < b->len && n < max) {
		size_t len = utf8_len(b->data + at, b->len - at);

		at += len ? len : 1;
		n++;
	}
	if (at >= b->len)
		return;
	b->len = at;
	b->data[at] = '\0';
	buf_puts(b, CUT);
}

bool outcome_timeout_text(const struct outcome *o, char *out, size_t n)
{
	if (o->dialect != DIALECT_RLM)
		return false;
	(void)snprintf(out, n, "Execution timeout after %llu seconds",
		       (unsigned long long)(o->timeout_ms + 500) / 1000);
	return true;
}

/* Why there is no status of the command's own. */
static bool trouble(struct buf *b, const struct outcome *o)
{
	char text[64];

	if (o->error.code)
		buf_printf(b, o->dialect == DIALECT_RLM ? "Execution error: %s" : "Error: %s",
			   o->error.what);
	else if (o->kind != OUTCOME_TIMEOUT)
		return false;
	else if (outcome_timeout_text(o, text, sizeof(text)))
		buf_puts(b, text);
	else
		buf_printf(b, "Command timed out after %llu seconds",
			   (unsigned long long)(o->duration_us + 500000) / 1000000);
	return true;
}

char *outcome_text(const struct outcome *o, size_t max)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	int status = outcome_status(o);

	if (!trouble(&b, o) && status)
		buf_printf(&b, "Exit code: %d", status);
	block(&b, "STDOUT", &o->out);
	block(&b, "STDERR", &o->err);
	if (!b.len)
		buf_puts(&b, "(no output)");
	if (max)
		outcome_text_cut(&b, max);
	return buf_take(&b);
}

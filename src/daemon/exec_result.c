/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/exec_result.h"

#include "base/json.h"
#include "base/str.h"

#define TEXT_MAX ((size_t)16 << 20)

void exec_result_init(struct exec_result *r)
{
	*r = (struct exec_result){ BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX) };
}

void exec_result_done(struct exec_result *r)
{
	buf_done(&r->out);
	buf_done(&r->err);
	buf_done(&r->both);
}

/* The sandbox's limit on output has cut it already; beyond the maximum here it is cut again. */
static void add(struct buf *b, const void *p, size_t n)
{
	size_t room = b->max - b->len;

	buf_add(b, p, n < room ? n : room);
}

void exec_result_add(struct exec_result *r, int stream, const void *p, size_t n)
{
	add(stream == 2 ? &r->err : &r->out, p, n);
	add(&r->both, p, n);
}

static const struct buf *text_of(const struct exec_result *r, const char *key)
{
	return str_eq(key, "stdout")   ? &r->out
	       : str_eq(key, "stderr") ? &r->err
	       : str_eq(key, "output") ? &r->both
				       : NULL;
}

void exec_result_write(const struct exec_result *r, const struct jread *object, struct buf *to)
{
	struct json j;

	json_init(&j, to, false);
	json_object(&j);
	for (void *it = jread_first(object); it; it = jread_next(object, it)) {
		const char *key = jread_key(it);
		const struct buf *text = text_of(r, key);

		json_key(&j, key);
		if (text) {
			json_strn(&j, buf_str(text), text->len);
		} else if (str_eq(key, "output_bytes")) {
			json_u64(&j, r->both.len);
		} else {
			jread_write(jread_value(it), to);
			j.after_key = j.fresh = false;
		}
	}
	json_object_end(&j);
}

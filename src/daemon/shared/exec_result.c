/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shared/exec_result.h"

#include "base/bytes/json.h"
#include "base/text/str.h"

#define TEXT_MAX ((size_t)16 << 20)
#define SHOWN_MAX ((size_t)32 << 20) /* more than a call of a context keeps */

void exec_result_init(struct exec_result *r)
{
	*r = (struct exec_result){ BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX),
				   BUF_INIT(SHOWN_MAX) };
}

void exec_result_done(struct exec_result *r)
{
	buf_done(&r->out);
	buf_done(&r->err);
	buf_done(&r->both);
	buf_done(&r->shown);
}

/* The sandbox's limit on output has cut it already; beyond the maximum here it is cut again. */
static void exec_result_put(struct buf *b, const void *p, size_t n)
{
	size_t room = b->max - b->len;

	buf_add(b, p, n < room ? n : room);
}

void exec_result_add(struct exec_result *r, int stream, const void *p, size_t n)
{
	exec_result_put(stream == 2 ? &r->err : &r->out, p, n);
	exec_result_put(&r->both, p, n);
}

void exec_result_show(struct exec_result *r, const char *json, size_t n)
{
	if (r->shown.len)
		buf_putc(&r->shown, ',');
	buf_add(&r->shown, json, n);
}

static const struct buf *exec_result_text_of(const struct exec_result *r, const char *key)
{
	if (str_eq(key, "stdout"))
		return &r->out;
	if (str_eq(key, "stderr"))
		return &r->err;
	return str_eq(key, "output") ? &r->both : NULL;
}

void exec_result_write(const struct exec_result *r, const struct jread *object, struct buf *to)
{
	struct json j;

	json_init(&j, to, false);
	json_object(&j);
	for (void *it = jread_first(object); it; it = jread_next(object, it)) {
		const char *key = jread_key(it);
		const struct buf *text = exec_result_text_of(r, key);

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
	if (r->shown.len) {
		json_karray(&j, "shown");
		json_raw(&j, buf_str(&r->shown), r->shown.len);
		json_array_end(&j);
	}
	json_object_end(&j);
}

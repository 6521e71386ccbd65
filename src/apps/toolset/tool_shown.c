/* SPDX-License-Identifier: Apache-2.0 */
/* apps/toolset/tool_shown.c - what the code of a context has shown: kept within bounds, told in
 * words.
 *
 * Whether an image is one is for who looks at it: here it is bytes. */
#include <stdlib.h>
#include <string.h>

#include "apps/toolset/tools_internal.h"
#include "base/text/str.h"

#define SHOWN_BYTES ((size_t)CONTEXT_SHOWN_BYTES)

static bool tool_shown_keep(struct tool_call *c, enum interp_mime m, const char *text)
{
	struct tool_result *r = &c->result;
	size_t n = strlen(text);
	char *copy = NULL;

	if (r->shown_count < TOOL_SHOWN_MAX && n <= SHOWN_BYTES - c->shown_bytes)
		copy = malloc(n + 1);
	if (!copy) {
		c->shown_lost++;
		return false;
	}
	memcpy(copy, text, n + 1);
	c->shown_bytes += n;
	r->shown[r->shown_count++] = (struct tool_shown){
		.mime = interp_mime_name(m), .data = copy, .len = n, .image = interp_mime_image(m)
	};
	return true;
}

void shown_add(struct tool_call *c, const struct interp_answer *a)
{
	const char *plain = a->data[MIME_PLAIN];

	if (plain && strlen(plain) <= SHOWN_BYTES - c->shown_bytes) {
		c->shown_bytes += strlen(plain);
		buf_printf(&c->plain, "%s%s\n", a->value ? "VALUE:\n" : "SHOWN:\n", plain);
	} else if (plain) {
		c->shown_lost++;
	}
	for (int m = MIME_PLAIN + 1; m < MIME_COUNT; m++)
		if (a->data[m] && tool_shown_keep(c, (enum interp_mime)m, a->data[m]))
			buf_printf(&c->plain, "[%s, %zu bytes]\n",
				   interp_mime_name((enum interp_mime)m), strlen(a->data[m]));
}

void shown_put_text(const struct tool_call *c, struct buf *b)
{
	if (b->len && c->plain.len)
		buf_putc(b, '\n');
	buf_add(b, buf_str(&c->plain), c->plain.len);
	if (c->shown_lost)
		buf_printf(b,
			   "[%zu more left out: a call shows at most %d results and %zu MiB of "
			   "them]\n",
			   c->shown_lost, TOOL_SHOWN_MAX, SHOWN_BYTES >> 20);
}

void shown_put_json(const struct tool_call *c, struct json *j)
{
	json_karray(j, "shown");
	for (size_t i = 0; i < c->result.shown_count; i++) {
		json_object(j);
		json_kstr(j, "mime", c->result.shown[i].mime);
		json_ku64(j, "bytes", c->result.shown[i].len);
		json_object_end(j);
	}
	json_array_end(j);
}

void shown_done(struct tool_call *c)
{
	for (size_t i = 0; i < c->result.shown_count; i++)
		free(c->result.shown[i].data);
	c->result.shown_count = 0;
	buf_done(&c->plain);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings/cache_layers.h"

#include <stdio.h>
#include <string.h>

#include "base/text/clean.h"
#include "cli/settings/volume_rows.h"
#include "sandbox/layers/layer.h"

#define ID_SHOWN 12

static const char *layer_state_word(const struct layer_row *r)
{
	if (r->used)
		return "in use";
	if (r->leftover)
		return "leftover";
	if (r->about->sandbox[0] && !r->damaged)
		return "kept";
	return r->damaged ? "damaged" : "finished";
}

static void put_age(struct buf *b, int64_t seconds)
{
	static const struct {
		int64_t s;
		char unit;
	} steps[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	char text[40] = "0s";

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (seconds >= steps[i].s) {
			(void)snprintf(text, sizeof(text), "%lld%c",
				       (long long)(seconds / steps[i].s), steps[i].unit);
			break;
		}
	buf_printf(b, "  %4s", text);
}

struct layer_text {
	struct buf *b;
	int64_t now;
	bool any;
};

static int put_line(void *arg, const struct layer_row *r)
{
	struct layer_text *t = arg;
	const struct layer_about *a = r->about;

	if (!t->any)
		buf_puts(t->b, "LAYER             SIZE   AGE  STATE     CHANGED  WORKSPACE\n");
	t->any = true;
	buf_printf(t->b, "%.*s ", ID_SHOWN, a->id);
	volume_put_size(t->b, r->bytes, false);
	if (a->began)
		put_age(t->b, t->now - a->began);
	else
		buf_puts(t->b, "     -");
	buf_printf(t->b, "  %-8s  %6llu%c  ", layer_state_word(r), (unsigned long long)a->changed,
		   a->more ? '+' : ' ');
	if (a->workspace[0])
		clean_put(t->b, a->workspace, strlen(a->workspace));
	else
		buf_putc(t->b, '?');
	buf_putc(t->b, '\n');
	return 0;
}

int cache_layers_text(struct buf *b, int64_t now, struct err *e)
{
	struct layer_text t = { .b = b, .now = now };

	return layer_list(put_line, &t, e);
}

static int put_object(void *arg, const struct layer_row *r)
{
	struct json *j = arg;
	const struct layer_about *a = r->about;

	json_object(j);
	json_kstr(j, "run", a->id);
	json_kstr(j, "sandbox", a->sandbox[0] ? a->sandbox : NULL);
	json_kstr(j, "workspace", a->workspace[0] ? a->workspace : NULL);
	json_kstr(j, "state", layer_state_word(r));
	json_ku64(j, "bytes", r->bytes);
	json_ku64(j, "changed", a->changed);
	json_kbool(j, "more", a->more);
	json_ku64(j, "began", (uint64_t)a->began);
	json_object_end(j);
	return 0;
}

int cache_layers_json(struct json *j, struct err *e)
{
	int r;

	json_karray(j, "layers");
	r = layer_list(put_object, j, e);
	json_array_end(j);
	return r;
}

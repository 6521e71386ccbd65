/* SPDX-License-Identifier: Apache-2.0 */
#include "far/far_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes/json.h"
#include "far/far_place.h"

static int say_list(struct frames *c, enum frames_kind kind, const char *const *v)
{
	CLEANUP(buf) struct buf all = BUF_INIT(FAR_TEXT_MAX);

	for (; v && *v; v++)
		buf_add(&all, *v, strlen(*v) + 1);
	return all.failed ? -E2BIG : frames_say_all(c, kind, 0, all.data, all.len);
}

static int put_paths(const struct far_request *q, struct json *j, struct err *e)
{
	json_karray(j, "paths");
	for (size_t i = 0; i < q->path_count; i++) {
		struct far_place at;
		int r = far_place_look(q->paths[i].path, &at);

		if (r < 0)
			return err_errno(e, r, "%s: cannot open '%.200s'", q->paths[i].what,
					 q->paths[i].path);
		json_object(j);
		json_kstr(j, "path", q->paths[i].path);
		json_kstr(j, "what", q->paths[i].what);
		json_ku64(j, "dev", at.dev);
		json_ku64(j, "ino", at.ino);
		json_ku64(j, "type", at.type);
		json_object_end(j);
	}
	json_array_end(j);
	return 0;
}

static int put_settings(const struct far_request *q, struct json *j, struct err *e)
{
	char boot[FAR_BOOT_SIZE];

	far_boot(boot);
	json_object(j);
	json_kstr(j, "version", BRIG_VERSION);
	json_ku64(j, "protocol", FAR_PROTOCOL);
	json_kstr(j, "run", q->id);
	json_kstr(j, "boot", boot);
	if (q->one_home) {
		json_kstr(j, "home", getenv("HOME"));
		json_kstr(j, "state", getenv("XDG_STATE_HOME"));
	}
	json_kbool(j, "tty", q->tty);
	json_kbool(j, "input", q->input);
	json_ku64(j, "rows", q->rows);
	json_ku64(j, "cols", q->cols);
	json_ku64(j, "output", q->output);
	json_ku64(j, "most_timeout", q->most_timeout);
	json_ku64(j, "most_memory", q->most_memory);
	json_ku64(j, "most_gpus", q->most_gpus);
	if (put_paths(q, j, e) < 0)
		return -e->code;
	if (q->settings) {
		json_key(j, "settings");
		json_raw(j, q->settings, q->settings_size);
	}
	json_object_end(j);
	return 0;
}

int far_request_say(struct frames *c, const struct far_request *q, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(FAR_TEXT_MAX);
	struct json j;
	int r;

	json_init(&j, &text, false);
	if (put_settings(q, &j, e) < 0)
		return -e->code;
	r = text.failed ? -E2BIG : frames_say_all(c, FRAMES_SETTINGS, 0, text.data, text.len);
	if (r == 0 && !q->settings)
		r = say_list(c, FRAMES_OPTIONS, q->options);
	if (r == 0 && q->words)
		r = say_list(c, FRAMES_WORDS, q->words);
	if (r == 0)
		r = say_list(c, FRAMES_VARIABLES, q->variables);
	if (r == 0 && q->code)
		r = q->code_size > FAR_TEXT_MAX
			    ? -E2BIG
			    : frames_say_all(c, FRAMES_CODE, 0, q->code, q->code_size);
	if (r == 0)
		r = frames_say(c, FRAMES_GO, 0, NULL, 0);
	return r < 0 ? err_set(e, ERR_USAGE, E2BIG, "the command is too long") : 0;
}

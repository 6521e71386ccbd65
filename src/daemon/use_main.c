/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/use_main.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "proc/use.h"

#define OUT_MAX ((size_t)1 << 20)

static void put_word(struct json *j, struct use *all, char *word)
{
	char *equals = strrchr(word, '=');
	struct used u;

	if (!equals)
		return;
	*equals = '\0';
	json_key(j, word);
	if (!use_of(all, equals + 1, &u)) {
		json_null(j);
		return;
	}
	json_object(j);
	json_ku64(j, "processes", u.processes);
	json_ku64(j, "threads", u.threads);
	json_ku64(j, "memory", u.memory);
	json_ku64(j, "cpu_ms", u.cpu_ms);
	json_object_end(j);
}

int use_main(int argc, char **argv)
{
	CLEANUP(buf) struct buf out = BUF_INIT(OUT_MAX);
	CLEANUP(use) struct use *all = use_look();
	struct json j;

	if (!all)
		return 1;
	json_init(&j, &out, false);
	json_object(&j);
	json_key(&j, "sandboxes");
	json_object(&j);
	for (int i = 1; i < argc; i++)
		put_word(&j, all, argv[i]);
	json_object_end(&j);
	json_object_end(&j);
	return out.failed || fd_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}

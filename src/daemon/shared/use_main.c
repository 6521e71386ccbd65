/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shared/use_main.h"

#include <string.h>
#include <unistd.h>

#include "base/bytes/json.h"
#include "base/files/fd.h"
#include "base/text/buf.h"
#include "proc/use.h"

#define OUT_MAX ((size_t)1 << 20)

static void put_word(struct json *j, struct use *all, char *word)
{
	char *equals = strrchr(word, '=');

	if (!equals)
		return;
	*equals = '\0';
	json_key(j, word);
	used_json(all, equals + 1, j);
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
	json_kobject(&j, "sandboxes");
	for (int i = 1; i < argc; i++)
		put_word(&j, all, argv[i]);
	json_object_end(&j);
	json_object_end(&j);
	return out.failed || fd_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}

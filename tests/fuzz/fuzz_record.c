/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_record.c - the list of a workspace's git folders, as the state folder has it. What is
 * read is what would be written again. */
#include "fuzz.h"

#include "backend/kit/survey/git_record.h"

static struct stat stat_of(const struct stamp *s)
{
	return (struct stat){ .st_dev = s->ident.dev,
			      .st_ino = s->ident.ino,
			      .st_mode = s->ident.type,
			      .st_size = s->size,
			      .st_mtim = s->mtime,
			      .st_ctim = s->ctime };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct known_list l = KNOWN_LIST_NONE, again = KNOWN_LIST_NONE;

	if (size)
		buf_add(&l.text, data, size);
	if (known_read(&l)) {
		for (size_t i = 0; i < l.n; i++) {
			const struct stat st = stat_of(&l.v[i].was);

			require((*l.v[i].path == '/') == (l.v[i].kind == RECORD_NAME) &&
				known_find(&l, l.v[i].path));
			known_put(&again.text, l.v[i].kind, l.v[i].path, &st);
		}
		require(known_read(&again) && again.n == l.n);
	} else {
		require(!l.n && !known_find(&l, ""));
	}
	known_done(&l);
	known_done(&again);
	return 0;
}

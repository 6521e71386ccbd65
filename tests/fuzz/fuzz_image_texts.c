/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_image_texts.c - indexes, manifests, configurations, lists of docker's and /etc/passwd
 * of a hostile image: what passes is sound, and a record says the same when it is read again. */
#include "fuzz.h"

#include "image/store/texts.h"
#include "image/store/users.h"

static void config(const char *text, size_t n)
{
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	CLEANUP(buf) struct buf b = BUF_INIT(IMAGE_RECORD_MAX), again = BUF_INIT(IMAGE_RECORD_MAX);
	struct image_record one, two;
	struct err e = { 0 };

	require(a);
	if (image_config_read(text, n, a, &one, &e) < 0) {
		require(e.code && e.what[0]);
		return;
	}
	require(one.diff_count > 0 && one.diff_count <= IMAGE_DIFFS_MAX);
	image_record_write(&one, &b);
	if (b.failed || image_record_read(buf_str(&b), b.len, false, a, &two, &e) < 0)
		return; /* it is too long */
	image_record_write(&two, &again);
	require(again.failed || (again.len == b.len && memcmp(again.data, b.data, b.len) == 0));
}

static void users(const uint8_t *data, size_t n)
{
	struct users_found *f = calloc(1, sizeof(*f));
	char user[64] = { 0 };
	size_t some = n < 63 ? n : 63;

	require(f);
	memcpy(user, data, some);
	n = n < USERS_TEXT_MAX - 1 ? n : USERS_TEXT_MAX - 1;
	memcpy(f->passwd, data, n);
	memcpy(f->group, data, n);
	users_clean(f->passwd, 7);
	users_clean(f->group, 4);
	require(!strstr(f->passwd, "\nroot:") && strncmp(f->passwd, "root:", 5) != 0);
	users_find(user, f);
	require(!f->has_user || f->uid != 0);
	free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct oci_index *x = calloc(1, sizeof(*x));
	struct archive_list *l = calloc(1, sizeof(*l));
	struct oci_manifest *m = calloc(1, sizeof(*m));
	struct err e = { 0 };

	require(x && l && m);
	if (oci_read_index(text, size, x, &e) == 0)
		require(oci_index_sound(x));
	if (oci_read_image(text, size, m, &e) == 0)
		require(oci_sound(m) && m->n > 0);
	if (archive_list_read(text, size, l, &e) == 0)
		require(l->n > 0 && l->n <= ARCHIVE_IMAGES_MAX);
	config(text, size);
	users(data, size);
	free(x);
	free(l);
	free(m);
	return 0;
}

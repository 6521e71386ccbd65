/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_tar.c - archives: what is written is read, and what wants to be elsewhere is refused.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/files/fd.h"
#include "base/tar/tar.h"
#include "base/files/tree.h"
#include "base/text/buf.h"
#include "proc/files/files.h"

struct source {
	const char *p;
	size_t n;
};

static int put(void *arg, const void *p, size_t n)
{
	buf_add(arg, p, n);
	return 0;
}

static int get(void *arg, void *p, size_t n)
{
	struct source *s = arg;

	if (n > s->n)
		return -ENODATA;
	memcpy(p, s->p, n);
	s->p += n;
	s->n -= n;
	return 0;
}

static int new_folder(char path[64])
{
	int fd;

	(void)snprintf(path, 64, "/tmp/brig-unit-tar.XXXXXX");
	assert_non_null(mkdtemp(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void remove_folder(const char *path)
{
	CLEANUP(fd) int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(tree_remove(tmp, path + strlen("/tmp/")), 0);
}

static int unpack(int folder, const struct buf *b, bool links)
{
	struct tar_limits l = { .bytes = 1 << 20, .entries = 100, .links = links };
	struct source s = { b->data, b->len };

	return tar_unpack(folder, &l, get, NULL, &s);
}

static void add(struct buf *b, enum tar_type type, const char *name, const char *target,
		const char *data)
{
	static const char zeros[TAR_BLOCK];
	struct tar_entry t = { .type = type, .mode = 0644, .size = strlen(data) };

	(void)snprintf(t.name, sizeof(t.name), "%s", name);
	(void)snprintf(t.target, sizeof(t.target), "%s", target);
	assert_int_equal(tar_put_entry(put, b, &t), 0);
	buf_add(b, data, t.size);
	buf_add(b, zeros, (TAR_BLOCK - t.size % TAR_BLOCK) % TAR_BLOCK);
}

static void write_file(int folder, const char *path, const char *text, mode_t mode)
{
	CLEANUP(fd) int fd = openat(folder, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && fchmod(fd, mode) == 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void a_tree_that_was_packed_is_unpacked_as_it_was(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	struct tar_limits l = { .bytes = 1 << 20, .entries = 100 };
	char from[64], to[64], name[220], text[64], link[16];
	CLEANUP(fd) int a = new_folder(from), z = new_folder(to);
	struct stat st;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(mkdirat(a, "d", 0700), 0);
	write_file(a, "d/tool", "run", 0755);
	write_file(a, name, "long", 0600);
	write_file(a, "set", "id", 04755);
	assert_int_equal(symlinkat("d/tool", a, "l"), 0);
	l.links = true;
	assert_int_equal(tar_pack(a, &l, put, NULL, &b), 0);
	assert_int_equal(tar_pack_end(put, &b), 0);
	assert_int_equal(unpack(z, &b, true), 0);
	assert_int_equal(fd_read_file(z, "d/tool", text, sizeof(text)), 3);
	assert_int_equal(fd_read_file(z, name, text, sizeof(text)), 4);
	assert_int_equal(fstatat(z, "d/tool", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(fstatat(z, "set", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(readlinkat(z, "l", link, sizeof(link)), 6);
	remove_folder(from);
	remove_folder(to);
}

static void links_are_left_out_where_they_are_not_asked_for(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	struct tar_limits l = { .bytes = 1 << 20, .entries = 100 };
	char path[64];
	CLEANUP(fd) int fd = new_folder(path);

	assert_int_equal(symlinkat("x", fd, "l"), 0);
	assert_int_equal(mkfifoat(fd, "p", 0600), 0);
	assert_int_equal(tar_pack(fd, &l, put, NULL, &b), 0);
	assert_int_equal(b.len, 0);
	assert_int_equal(l.left_out, 2);
	add(&b, TAR_LINK, "made", "x", "");
	assert_int_equal(tar_pack_end(put, &b), 0);
	assert_int_equal(unpack(fd, &b, false), -EBADMSG);
	remove_folder(path);
}

static void a_size_beyond_octal_is_written_and_read(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	static struct tar_entry t, got;
	bool sized = false;

	t = (struct tar_entry){ .type = TAR_FILE, .mode = 0644, .size = (uint64_t)9 << 30 };
	(void)snprintf(t.name, sizeof(t.name), "f");
	assert_int_equal(tar_put_entry(put, &b, &t), 0);
	assert_int_equal(b.len, 3 * TAR_BLOCK);
	assert_int_equal(tar_parse(b.data, &got), 0);
	assert_int_equal(got.type, TAR_PAX);
	assert_int_equal(tar_parse_pax(b.data + TAR_BLOCK, got.size, &got, &sized), 0);
	assert_true(sized && got.size == t.size);
}

static void limits_hold(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	struct tar_limits l = { .bytes = 3, .entries = 100 };
	char path[64];
	CLEANUP(fd) int fd = new_folder(path);
	struct source s;

	add(&b, TAR_FILE, "a", "", "four");
	assert_int_equal(tar_pack_end(put, &b), 0);
	s = (struct source){ b.data, b.len };
	assert_int_equal(tar_unpack(fd, &l, get, NULL, &s), -EFBIG);
	l = (struct tar_limits){ .bytes = 100 };
	s = (struct source){ b.data, b.len };
	assert_int_equal(tar_unpack(fd, &l, get, NULL, &s), -EFBIG);
	write_file(fd, "large", "larger", 0644);
	l = (struct tar_limits){ .bytes = 3, .entries = 100 };
	assert_int_equal(tar_pack(fd, &l, put, NULL, &b), -EFBIG);
	remove_folder(path);
}

static void a_name_stays_below(void **state UNUSED)
{
	static const struct {
		const char *name, *clean; /* NULL: refused */
	} rows[] = { { "a", "a" },         { "./a", "a" },
		     { "./", "" },         { ".", "" },
		     { "", "" },           { "a/b/", "a/b" },
		     { ".//a", "a" },      { "..", NULL },
		     { "../a", NULL },     { "a/../b", NULL },
		     { "a/..", NULL },     { "/a", NULL },
		     { "a//b", NULL },     { "a/./b", NULL },
		     { "./../a", NULL },   { "././../a", NULL },
		     { ".//../a", NULL },  { "...", "..." },
		     { "..a/b", "..a/b" }, { ".hidden", ".hidden" } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char name[TAR_NAME_MAX];

		(void)snprintf(name, sizeof(name), "%s", rows[i].name);
		if (!rows[i].clean) {
			assert_false(tar_clean_name(name));
			continue;
		}
		assert_true(tar_clean_name(name));
		assert_string_equal(name, rows[i].clean);
	}
}

static void records_that_lie_about_their_length_are_refused(void **state UNUSED)
{
	static const char *const bad[] = { "5 a=b\n",
					   "99 path=x\n",
					   "0 a=b\n",
					   "x a=b\n",
					   "6 a=bc",
					   "3 \n",
					   "6 abcd",
					   "9 size=x\n",
					   "8 size=\n",
					   "12 size=-1 \n",
					   "99999999999999999999 a=b\n",
					   "22 GNU.sparse.major=1\n" };
	static struct tar_entry t;
	bool sized;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (tar_parse_pax(bad[i], strlen(bad[i]), &t, &sized) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(tar_parse_pax("6 a=b\n10 path=x\n", 16, &t, &sized), 0);
	assert_string_equal(t.name, "x");
}

static void a_header_must_add_up(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)1 << 20);
	static struct tar_entry t;

	add(&b, TAR_FILE, "a", "", "");
	assert_int_equal(tar_parse(b.data, &t), 0);
	b.data[0] = 'b';
	assert_int_equal(tar_parse(b.data, &t), -EBADMSG);
}

static void entries_come_in_pieces_and_lies_are_refused(void **state UNUSED)
{
	struct file_entry e = { .size = 7, .mode = S_IFREG | 0644, .length = 3 };
	struct file_entries x = { 0 };
	char data[2 * (sizeof(e) + 3)];
	size_t whole = 0;

	for (size_t i = 0; i < 2; i++) {
		memcpy(data + i * (sizeof(e) + 3), &e, sizeof(e));
		memcpy(data + i * (sizeof(e) + 3) + sizeof(e), "abc", 3);
	}
	for (size_t i = 0; i < sizeof(data); i++) {
		const char *p = data + i;
		size_t n = 1;

		whole += file_entries_take(&x, &p, &n) == 1;
	}
	assert_int_equal(whole, 2);
	assert_string_equal(x.name, "abc");
	for (uint32_t length = 0; length < 1000; length += 333) {
		const char *p = data;
		size_t n = sizeof(data);

		e.length = length;
		memcpy(data, &e, sizeof(e));
		data[sizeof(e) + 1] = '/';
		x = (struct file_entries){ 0 };
		assert_int_equal(file_entries_take(&x, &p, &n), -EBADMSG);
	}
}

static void an_order_is_what_was_ordered(void **state UNUSED)
{
	const struct file_order o = { .verb = FILE_MOVE,
				      .flags = FILE_OVER,
				      .mode = 0640,
				      .limit = FILE_BYTES_MAX,
				      .path = "a\nb",
				      .to = "" };
	const char *short_one[] = { "1", "2", NULL };
	struct file_words w;
	struct file_order got;

	file_order_words(&o, &w);
	assert_int_equal(file_order_read(w.argv, &got), 0);
	assert_true(got.verb == o.verb && got.flags == o.flags && got.mode == o.mode &&
		    got.limit == o.limit);
	assert_string_equal(got.path, o.path);
	assert_int_equal(file_order_read(short_one, &got), -EPROTO);
	w.argv[0] = "99";
	assert_int_equal(file_order_read(w.argv, &got), -EPROTO);
	w.argv[0] = "x";
	assert_int_equal(file_order_read(w.argv, &got), -EPROTO);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_tree_that_was_packed_is_unpacked_as_it_was),
	cmocka_unit_test(links_are_left_out_where_they_are_not_asked_for),
	cmocka_unit_test(a_size_beyond_octal_is_written_and_read),
	cmocka_unit_test(limits_hold),
	cmocka_unit_test(a_name_stays_below),
	cmocka_unit_test(records_that_lie_about_their_length_are_refused),
	cmocka_unit_test(a_header_must_add_up),
	cmocka_unit_test(entries_come_in_pieces_and_lies_are_refused),
	cmocka_unit_test(an_order_is_what_was_ordered),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

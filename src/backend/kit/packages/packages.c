/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/packages/packages.c - find the copy, or have it made.
 *
 *	CACHE/packages/now         the list: version, stamp of the database, ID, entries
 *	CACHE/packages/ID/tree     the copy, and folders of links that lead into it
 *	CACHE/packages/ID/seen     what was looked at for it: a stamp and a path a line
 *
 * The list is replaced as a whole; its time is when the files were last compared with `seen`. */
#include "backend/kit/packages/packages.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "backend/kit/packages/packages_make.h"
#include "base/bytes/hex.h"
#include "base/bytes/random.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/files/tree.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define VERSION "brig packages 3"

enum { COMPARE_AFTER = 60, FOLDERS_MAX = 64 };

/* The next line of *text, which is cut there; NULL: there is none. */
static char *packages_next_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/* Of which kind, for whom, a path, and its packages. */
static bool read_entry(struct arena *a, char *line, struct packages *ret)
{
	char *tab = strchr(line, '\t'), *place = line + 2;
	struct package_entry *v;

	if (!line[0] || !strchr("clw", line[0]) || !line[1] || !tab ||
	    !str_starts(place, PACKAGES_PLACE "/"))
		return false;
	*tab = '\0';
	if (line[0] == 'l' && !packages_live(place + strlen(PACKAGES_PLACE)))
		return false;
	v = ret->n < PACKAGES_ENTRIES ? ARENA_PUSH(a, ret->v, ret->n) : NULL;
	if (!v)
		return false;
	*v = (struct package_entry){ .place = place,
				     .path = place + strlen(PACKAGES_PLACE),
				     .packages = tab + 1,
				     .terminal = line[1] == 't',
				     .live = line[0] == 'l',
				     .whole = line[0] == 'w' };
	return true;
}

static bool packages_is_id(const char *text)
{
	unsigned char id[PACKAGES_ID / 2];

	return strlen(text) == PACKAGES_ID && hex_decode(text, id, sizeof(id)) == 0;
}

bool packages_read(struct arena *a, const char *text, const char *stamp, struct packages *ret)
{
	char *rest = arena_strdup(a, text), *line;

	*ret = (struct packages){ 0 };
	if (!rest || !(line = packages_next_line(&rest)) || !str_eq(line, VERSION) ||
	    !(line = packages_next_line(&rest)) || !str_eq(line, stamp) ||
	    !(ret->id = packages_next_line(&rest)) || !packages_is_id(ret->id))
		return false;
	while ((line = packages_next_line(&rest)))
		if (!read_entry(a, line, ret))
			return false;
	return true;
}

static void put_stamp(struct buf *b, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		buf_puts(b, "-");
	else
		buf_printf(b, "%llx.%llx.%lx.%llx", (unsigned long long)st.st_ino,
			   (unsigned long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec,
			   (unsigned long long)st.st_size);
}

void packages_seen(struct buf *seen, const char *path)
{
	put_stamp(seen, path);
	buf_printf(seen, " %s\n", path);
}

/* Is every file what it was? */
static bool still_so(int folder, const char *id)
{
	CLEANUP(buf) struct buf seen = BUF_INIT(PACKAGES_SEEN);
	CLEANUP(buf) struct buf now = BUF_INIT(PATH_MAX);
	char name[PACKAGES_ID + sizeof("/seen")], *rest, *line;
	CLEANUP(fd) int fd = -1;

	(void)snprintf(name, sizeof(name), "%s/seen", id);
	fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || buf_read_file(&seen, fd) < 0 || seen.failed || !seen.len)
		return false;
	buf_putc(&seen, '\0');
	for (rest = seen.data; !seen.failed && (line = packages_next_line(&rest));) {
		char *path = strchr(line, ' ');

		if (!path)
			return false;
		*path++ = '\0';
		now.len = 0;
		put_stamp(&now, path);
		if (now.failed || !str_eq(buf_str(&now), line))
			return false;
	}
	return !seen.failed;
}

/* Where the open folder is: whoever opens it again follows no link. */
static bool packages_place(struct arena *a, int folder, struct packages *ret)
{
	char number[64], where[PATH_MAX];
	ssize_t n;

	(void)snprintf(number, sizeof(number), "/proc/self/fd/%d", folder);
	n = readlink(number, where, sizeof(where));
	if (n <= 0 || n == (ssize_t)sizeof(where))
		return false;
	ret->tree = arena_printf(a, "%.*s/%s/tree", (int)n, where, ret->id);
	return ret->tree && access(ret->tree, F_OK) == 0;
}

/* The list that holds; false: there is none. */
static bool take_list(struct arena *a, int folder, const char *stamp, struct packages *ret)
{
	CLEANUP(fd) int fd = openat(folder, "now", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	CLEANUP(buf) struct buf text = BUF_INIT(PACKAGES_LIST);
	struct stat st;
	time_t now = time(NULL);

	if (fd < 0 || fstat(fd, &st) < 0 || buf_read_file(&text, fd) < 0 ||
	    !packages_read(a, buf_str(&text), stamp, ret) || !packages_place(a, folder, ret))
		return false;
	if (st.st_mtime <= now && now - st.st_mtime < COMPARE_AFTER)
		return true;
	return still_so(folder, ret->id) && futimens(fd, NULL) == 0;
}

/* Where rpm has its database, in each of its formats. Not the log beside the first: whoever asks
 * writes to that. */
static const char *const rpm_databases[] = {
	"/usr/lib/sysimage/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/Packages.db",
	"/usr/lib/sysimage/rpm/Packages",     "/var/lib/rpm/rpmdb.sqlite",
	"/var/lib/rpm/Packages.db",           "/var/lib/rpm/Packages",
};

static bool add_stamp(struct buf *b, const char *path)
{
	size_t before = b->len;
	bool there;

	put_stamp(b, path);
	there = b->len != before + 1;
	buf_putc(b, ' ');
	return there;
}

static bool database_stamp(struct buf *b)
{
	bool there = add_stamp(b, DPKG_STATUS);

	if (there)
		(void)add_stamp(b, UCF_SUMS);
	else
		for (size_t i = 0; i < ARRAY_LEN(rpm_databases); i++)
			there = add_stamp(b, rpm_databases[i]) || there;
	if (!there)
		return false;
	put_stamp(b, "/sys"); /* made when the machine started */
	return !b->failed;
}

bool packages_find(struct arena *a, struct packages *ret)
{
	CLEANUP(buf) struct buf stamp = BUF_INIT(PATH_MAX);
	CLEANUP(fd) int folder = -1;
	char path[PATH_MAX];

	*ret = (struct packages){ 0 };
	if (!database_stamp(&stamp))
		return false;
	folder = cache_find("packages", path, sizeof(path));
	return folder >= 0 && take_list(a, folder, buf_str(&stamp), ret);
}

/* One of many that start at once makes it, and the others wait: they would only make the same. */
bool packages_renew(struct arena *a, struct packages *ret)
{
	CLEANUP(buf) struct buf stamp = BUF_INIT(PATH_MAX);
	CLEANUP(fd) int folder = -1;
	char path[PATH_MAX];
	struct err ignored;

	*ret = (struct packages){ 0 };
	if (!database_stamp(&stamp))
		return false;
	folder = cache_open("packages", path, sizeof(path), &ignored);
	if (folder < 0 || flock(folder, LOCK_EX) < 0)
		return false;
	if (take_list(a, folder, buf_str(&stamp), ret))
		return true;
	return packages_make(folder, VERSION, buf_str(&stamp)) == 0 &&
	       take_list(a, folder, buf_str(&stamp), ret);
}

bool packages_has_folder(struct arena *a, const struct packages *p, const char *name)
{
	const char *path = arena_printf(a, "%s/" PACKAGES_FOLDER "%s", p->tree, name);

	return path && access(path, F_OK) == 0;
}

/* Every set of names makes one: not without end. */
static bool has_room(int tree)
{
	const struct fd_entry *one;
	struct folder d;
	size_t n = 0;

	folder_begin(&d, tree);
	while ((one = folder_next(&d)))
		n += str_starts(one->name, PACKAGES_FOLDER);
	return n < FOLDERS_MAX && !d.error;
}

static int make_links(int tree, const char *name, const struct package_link *v, size_t n)
{
	CLEANUP(fd) int fd = -1;

	if (mkdirat(tree, name, 0755) < 0)
		return -errno;
	fd = openat(tree, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0755) < 0)
		return -errno;
	for (size_t i = 0; i < n; i++)
		if (symlinkat(v[i].to, fd, v[i].name) < 0)
			return -errno;
	return 0;
}

/* Whoever comes second finds that a folder with something in it cannot be replaced. */
bool packages_make_folder(const struct packages *p, const char *name, const struct package_link *v,
			  size_t n)
{
	CLEANUP(fd) int tree = open(p->tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char id[PACKAGES_ID + 1], draft[64], last[64];
	struct err ignored;

	if (tree < 0 || !has_room(tree) || random_hex(id, sizeof(id), &ignored) < 0)
		return false;
	(void)snprintf(draft, sizeof(draft), PACKAGES_FOLDER "new-%s", id);
	(void)snprintf(last, sizeof(last), PACKAGES_FOLDER "%.40s", name);
	if (make_links(tree, draft, v, n) == 0 && renameat(tree, draft, tree, last) == 0)
		return true;
	(void)tree_remove(tree, draft);
	return faccessat(tree, last, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/users.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "proc/confine.h"
#include "proc/forked.h"

enum { FIELDS_PASSWD = 7, FIELDS_GROUP = 4, NAME_LEN = 32 };

struct users_job {
	const int *trees;
	size_t n;
	const char *user;
	struct users_found *found;
};

/* ---- lines ---- */

static bool users_fits(const char *line, size_t n, unsigned fields)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t name = strspn(line, letters);
	unsigned have = 1;

	if (!name || name > NAME_LEN || name >= n || line[name] != ':' || n > 512)
		return false;
	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)line[i] < 0x20 || (unsigned char)line[i] > 0x7e)
			return false;
		have += line[i] == ':';
	}
	return have == fields && !(name == 4 && memcmp(line, "root", 4) == 0);
}

void users_clean(char *text, unsigned fields)
{
	char *to = text;

	for (char *line = text; *line;) {
		size_t n = strcspn(line, "\n");
		char *next = line + n + (line[n] == '\n');

		if (users_fits(line, n, fields) && line[n] == '\n') {
			memmove(to, line, n + 1);
			to += n + 1;
		}
		line = next;
	}
	*to = '\0';
}

/* The field of that number, of a line. */
static bool users_field(const char *line, unsigned which, uint32_t *ret)
{
	char digits[12] = { 0 };
	uint64_t v;
	size_t n;

	for (; which; which--)
		line += strcspn(line, ":") + 1;
	n = strcspn(line, ":\n");
	if (!n || n >= sizeof(digits))
		return false;
	memcpy(digits, line, n);
	if (num_count(digits, &v) < 0 || v >= UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* The line of that name; or, where it is a number, with that one in its third field. */
static const char *users_line(const char *text, const char *name)
{
	size_t len = strlen(name);
	uint32_t id;
	uint64_t number;
	bool is_number = num_count(name, &number) == 0;

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		if ((strncmp(line, name, len) == 0 && line[len] == ':') ||
		    (is_number && users_field(line, 2, &id) && id == number))
			return line;
	return NULL;
}

void users_find(const char *user, struct users_found *f)
{
	char name[128], *group;
	const char *line;
	uint64_t n;

	if (strlen(user) >= sizeof(name))
		return;
	(void)snprintf(name, sizeof(name), "%s", user);
	group = strchr(name, ':');
	if (group)
		*group++ = '\0';
	line = users_line(f->passwd, name);
	if (line && users_field(line, 2, &f->uid) && users_field(line, 3, &f->gid))
		f->has_user = true;
	else if (num_count(name, &n) == 0 && n < UINT32_MAX) {
		f->uid = (uint32_t)n;
		f->has_user = true;
	}
	f->has_user &= f->uid != 0;
	if (!group || !f->has_user)
		return;
	line = users_line(f->group, group);
	if (line && users_field(line, 2, &f->gid))
		return;
	f->has_user = num_count(group, &n) == 0 && n < UINT32_MAX;
	f->gid = f->has_user ? (uint32_t)n : 0;
}

/* ---- in a process of its own ---- */

enum users_seen { SEEN_NOTHING, SEEN_IT, SEEN_HIDDEN };

/* etc/NAME of one layer; hidden: what is below it is not to be looked at. */
static enum users_seen users_look(int tree, const char *name, char text[USERS_TEXT_MAX])
{
	CLEANUP(fd) int etc = openat(tree, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(fd) int file = -1;
	char mark;
	size_t have = 0;
	ssize_t n;
	struct stat st;

	if (etc < 0)
		return errno == ENOENT ? SEEN_NOTHING : SEEN_HIDDEN;
	if (fstatat(etc, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fgetxattr(etc, "user.overlay.opaque", &mark, 1) > 0 ? SEEN_HIDDEN
									   : SEEN_NOTHING;
	if (!S_ISREG(st.st_mode))
		return SEEN_HIDDEN;
	file = openat(etc, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return SEEN_HIDDEN;
	while (have < USERS_TEXT_MAX - 1 &&
	       (n = read(file, text + have, USERS_TEXT_MAX - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = '\0';
	return SEEN_IT;
}

static void users_read(const struct users_job *j, const char *name, char text[USERS_TEXT_MAX])
{
	for (size_t i = j->n; i-- > 0;)
		if (users_look(j->trees[i], name, text) != SEEN_NOTHING)
			return;
}

static int users_run(void *arg, int line)
{
	struct users_job *j = arg;
	int keep[IMAGE_LAYERS_MAX + 1];
	const struct confine_want rest = {
		.folder = -1, .looks = j->trees, .look_count = j->n, .bytes = 0
	};
	struct err e = { 0 };

	memcpy(keep, j->trees, j->n * sizeof(*keep));
	keep[j->n] = line;
	if (fd_close_except(3, keep, j->n + 1) < 0)
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot close descriptors");
	else if (confine(CONFINE_WALKER, &rest, &e) == 0) {
		users_read(j, "passwd", j->found->passwd);
		users_read(j, "group", j->found->group);
		users_clean(j->found->passwd, FIELDS_PASSWD);
		users_clean(j->found->group, FIELDS_GROUP);
		users_find(j->user, j->found);
	}
	if (forked_tell(line, &e) == 0 && !e.code)
		(void)fd_write_all(line, j->found, sizeof(*j->found));
	return 0;
}

static int users_ask(struct users_job *j, struct err *e)
{
	const struct forked_want w = { .name = "brig-look",
				       .what = "the process that looks for users",
				       .line = FORKED_BYTES,
				       .run = users_run,
				       .arg = j };
	CLEANUP(fd) int line = -1;
	struct err said = { 0 };
	int r;
	pid_t pid = forked_start(&w, &line, e);

	if (pid < 0)
		return (int)pid;
	r = forked_hear(line, &said);
	if (r == 0 && !said.code)
		r = fd_read_all(line, j->found, sizeof(*j->found));
	if (r < 0)
		(void)kill(pid, SIGKILL);
	(void)forked_wait(pid);
	if (r < 0)
		return err_set(e, ERR_POLICY, EPROTO,
			       "the image is refused: its users ended the process that read them");
	if (said.code)
		*e = said;
	return -said.code;
}

int users_of(const int *trees, size_t n, struct arena *a, struct image_record *r, struct err *e)
{
	CLEANUP(mem) struct users_found *f = calloc(1, sizeof(*f));
	struct users_job j = { trees, n, r->root.user, f };

	if (!f)
		return err_nomem(e);
	if (users_ask(&j, e) < 0)
		return -e->code;
	f->passwd[USERS_TEXT_MAX - 1] = f->group[USERS_TEXT_MAX - 1] = '\0';
	users_clean(f->passwd, FIELDS_PASSWD); /* nobody is believed */
	users_clean(f->group, FIELDS_GROUP);
	r->root.has_user = f->has_user && f->uid;
	r->root.uid = f->uid;
	r->root.gid = f->gid;
	r->root.passwd = arena_strdup(a, f->passwd);
	r->root.group = arena_strdup(a, f->group);
	return r->root.passwd && r->root.group ? 0 : err_nomem(e);
}

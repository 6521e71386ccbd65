/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/image_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/files/claim.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/state.h"
#include "base/text/str.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define HUB "docker.io"
#define HUB_OWN "docker.io/library/"

enum { IMAGES_MOST = 4096, NAME_TEXT = 2048, ID_DIGITS = 12, WAIT_MS = 2000 };

/* ---- names ---- */

/* As docker reads it: a word with a dot, a colon, or localhost, in front of a slash is a host. */
static bool has_host(const char *text)
{
	size_t n = strcspn(text, "/");

	return text[n] && (memchr(text, '.', n) || memchr(text, ':', n) ||
			   (n == strlen("localhost") && str_starts(text, "localhost/")));
}

int image_name(const char *text, char out[IMAGE_NAME_MAX], struct err *e)
{
	char full[IMAGE_NAME_MAX];
	struct ref r;
	int n;

	if (has_host(text))
		n = snprintf(full, sizeof(full), "%s",
			     str_starts(text, "index." HUB "/") ? text + strlen("index.") : text);
	else
		n = snprintf(full, sizeof(full), "%s%s", strchr(text, '/') ? HUB "/" : HUB_OWN,
			     text);
	if (n < 0 || (size_t)n >= sizeof(full) || !*text || ref_parse(full, &r, e) < 0)
		return err_refuse(
			e, ERR_USAGE, EINVAL,
			"such as python:3.12-slim or registry.example/team/tool@sha256:...",
			"'%.100s' is not the name of an image", text);
	if (str_eq(r.host, HUB) && !strchr(r.repository, '/')) {
		(void)snprintf(full, sizeof(full), "library/%.200s", r.repository);
		(void)snprintf(r.repository, sizeof(r.repository), "%.240s", full);
	}
	(void)snprintf(out, IMAGE_NAME_MAX, "%s/%s%s%s", r.host, r.repository,
		       r.digest[0] ? "@" : ":", r.digest[0] ? r.digest : r.tag);
	return 0;
}

const char *image_short(const char *name)
{
	if (str_starts(name, HUB_OWN))
		return name + strlen(HUB_OWN);
	return str_starts(name, HUB "/") ? name + strlen(HUB "/") : name;
}

/* ---- the store ---- */

static int store_folder(int top, const char *name, bool makes)
{
	int fd;

	if (makes && mkdirat(top, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(top, name, FOLDER);
	return fd < 0 ? -errno : fd;
}

static int store_lock(struct image_store *s, enum image_hold hold, struct err *e)
{
	const struct timespec turn = { .tv_nsec = 20 * 1000 * 1000 };
	const int how = hold == IMAGE_TAKES_AWAY ? LOCK_EX : LOCK_SH;

	s->lock = openat(s->top, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock < 0)
		return err_sys(e, "cannot open the lock of brig's images");
	for (int ms = 0; flock(s->lock, how | LOCK_NB) < 0; ms += 20) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "cannot lock brig's images");
		if (ms >= WAIT_MS)
			return err_refuse(e, ERR_UNAVAILABLE, EBUSY, "try again when it has ended",
					  "somebody else is adding or removing images");
		(void)nanosleep(&turn, NULL);
	}
	return 0;
}

static int store_none(struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "brig has no images of its own");
}

int image_store_open(enum image_hold hold, struct image_store *ret, struct err *e)
{
	struct image_store s = IMAGE_STORE_NONE;
	const bool makes = hold == IMAGE_ADDS;
	int r = 0;

	s.top = makes ? cache_open(IMAGES, s.path, sizeof(s.path), e)
		      : cache_find(IMAGES, s.path, sizeof(s.path));
	if (s.top < 0)
		return makes ? -e->code : store_none(e);
	s.layers = store_folder(s.top, "layers", makes);
	s.records = store_folder(s.top, "records", makes);
	s.names = store_folder(s.top, "names", makes);
	if (s.layers < 0 || s.records < 0 || s.names < 0)
		r = makes ? err_set(e, ERR_INTERNAL, EIO, "cannot make the folders of images")
			  : store_none(e);
	else if (fd_real_path(s.layers, s.path) < 0)
		r = err_sys(e, "cannot tell where the images are");
	else if (hold != IMAGE_READS)
		r = store_lock(&s, hold, e);
	if (r < 0)
		image_store_done(&s);
	else
		*ret = s;
	return r;
}

void image_store_done(struct image_store *s)
{
	s->top = fd_close(s->top);
	s->layers = fd_close(s->layers);
	s->records = fd_close(s->records);
	s->names = fd_close(s->names);
	s->lock = fd_close(s->lock);
}

/* ---- one image ---- */

static int no_image(const char *ref, struct err *e)
{
	(void)err_set(e, ERR_NOT_FOUND, ENOENT, "image '%.100s' is not among brig's own", ref);
	return err_hint(e, "brig image import FILE adds one, brig image list shows those there");
}

/* What a file of names says: the id without "sha256:"; and the name, unless `name` is NULL. */
static bool name_read(int names, const char *file, char id[SHA256_HEX], char *name)
{
	CLEANUP(jread) struct jread *v = NULL;
	char text[NAME_TEXT];
	struct err unused;
	ssize_t n = fd_read_file(names, file, text, sizeof(text));
	const char *to, *said;

	if (n <= 0 || jread_parse(text, (size_t)n, &v, &unused) < 0)
		return false;
	to = jread_str(v, "id");
	said = jread_str(v, "name");
	if (!to || !ref_is_digest(to) || !said || strlen(said) >= IMAGE_NAME_MAX)
		return false;
	(void)snprintf(id, SHA256_HEX, "%s", to + 7);
	if (name)
		(void)snprintf(name, IMAGE_NAME_MAX, "%s", said);
	return true;
}

static bool id_by_name(const struct image_store *s, const char *ref, char id[SHA256_HEX])
{
	char full[IMAGE_NAME_MAX], file[SHA256_HEX];
	struct err unused;

	if (image_name(ref, full, &unused) < 0)
		return false;
	sha256_of(full, strlen(full), file);
	return name_read(s->names, file, id, NULL);
}

/* 1: found; 0: not; -EINVAL: more than one begins so. */
static int id_by_digits(const struct image_store *s, const char *ref, char id[SHA256_HEX])
{
	const char *digits = str_starts(ref, "sha256:") ? ref + 7 : ref;
	size_t n = strlen(digits);
	const struct fd_entry *en;
	struct folder d;
	int found = 0;

	if (n < ID_DIGITS || n > 64 || strspn(digits, "0123456789abcdef") != n ||
	    lseek(s->records, 0, SEEK_SET) < 0)
		return 0;
	folder_begin(&d, s->records);
	while ((en = folder_next(&d)))
		if (strlen(en->name) == 64 && strncmp(en->name, digits, n) == 0) {
			(void)snprintf(id, SHA256_HEX, "%s", en->name);
			found++;
		}
	return found > 1 ? -EINVAL : found;
}

static int find_image(const struct image_store *s, const char *ref, char id[SHA256_HEX],
		      struct err *e)
{
	int r;

	if (id_by_name(s, ref, id))
		return 0;
	r = id_by_digits(s, ref, id);
	if (r < 0)
		return err_refuse(e, ERR_USAGE, EINVAL, "give more digits",
				  "'%.70s' is the beginning of more than one image's id", ref);
	return r > 0 ? 0 : no_image(ref, e);
}

static int read_record(int records, const char *file, struct arena *a, struct image_record *ret,
		       struct err *e)
{
	CLEANUP(mem) char *text = malloc(IMAGE_RECORD_MAX + 1);
	ssize_t n;

	if (!text)
		return err_nomem(e);
	n = fd_read_file(records, file, text, IMAGE_RECORD_MAX + 1);
	if (n < 0)
		return err_errno(e, (int)n, "cannot read the record of image '%.12s'", file);
	return image_record_read(text, (size_t)n, true, a, ret, e);
}

int image_hold(const char *ref, struct arena *a, struct image_held *ret, struct err *e)
{
	struct image_store s = IMAGE_STORE_NONE;
	struct image_held h = IMAGE_HELD_NONE;
	char id[SHA256_HEX];
	struct stat was, now;
	int r = image_store_open(IMAGE_READS, &s, e);

	if (r < 0)
		return r == -ENOENT ? no_image(ref, e) : r;
	r = find_image(&s, ref, id, e);
	if (r == 0) {
		h.lock = openat(s.records, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (h.lock < 0 || flock(h.lock, LOCK_SH | LOCK_NB) < 0 || fstat(h.lock, &was) < 0 ||
		    fstatat(s.records, id, &now, 0) < 0 || was.st_ino != now.st_ino)
			r = no_image(ref, e); /* somebody takes it away */
	}
	if (r == 0)
		r = read_record(s.records, id, a, &h.record, e);
	if (r == 0)
		(void)snprintf(h.store, sizeof(h.store), "%s", s.path);
	image_store_done(&s);
	if (r < 0) {
		image_let_go(&h);
		return r;
	}
	h.record.root.store = arena_strdup(a, h.store);
	*ret = h;
	return h.record.root.store ? 0 : err_nomem(e);
}

void image_let_go(struct image_held *h)
{
	h->lock = fd_close(h->lock);
}

bool image_is_here(const char *ref)
{
	struct image_store s = IMAGE_STORE_NONE;
	char id[SHA256_HEX];
	struct err unused = { 0 };
	bool here;

	if (image_store_open(IMAGE_READS, &s, &unused) < 0)
		return false;
	here = find_image(&s, ref, id, &unused) == 0;
	image_store_done(&s);
	return here;
}

/* ---- all of them ---- */

struct image_listing {
	const struct image_store *s;
	int (*each)(void *arg, const struct image_row *row);
	void *arg;
	char (*named)[SHA256_HEX]; /* ids that a name was found for */
	size_t n;
};

static int list_one(struct image_listing *l, const char *name, const char *id)
{
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	CLEANUP(fd) int lock = openat(l->s->records, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct image_record r;
	struct image_row row = { .name = name, .record = &r };
	struct err unused;

	if (!a || lock < 0 || read_record(l->s->records, id, a, &r, &unused) < 0)
		return 0;
	row.used = flock(lock, LOCK_EX | LOCK_NB) < 0;
	(void)flock(lock, LOCK_UN);
	return l->each(l->arg, &row);
}

static int list_names(struct image_listing *l)
{
	const struct fd_entry *en;
	struct folder d;
	int r = 0;

	folder_begin(&d, l->s->names);
	while (r == 0 && l->n < IMAGES_MOST && (en = folder_next(&d))) {
		char id[SHA256_HEX], name[IMAGE_NAME_MAX];

		if (strlen(en->name) != 64 || !name_read(l->s->names, en->name, id, name))
			continue;
		memcpy(l->named[l->n++], id, SHA256_HEX);
		r = list_one(l, name, id);
	}
	return r;
}

static int list_nameless(struct image_listing *l)
{
	const struct fd_entry *en;
	struct folder d;
	size_t seen = 0;
	int r = 0;

	folder_begin(&d, l->s->records);
	while (r == 0 && seen++ < IMAGES_MOST && (en = folder_next(&d))) {
		bool has = strlen(en->name) != 64;

		for (size_t i = 0; i < l->n && !has; i++)
			has = str_eq(l->named[i], en->name);
		if (!has)
			r = list_one(l, "", en->name);
	}
	return r;
}

int image_list(int (*each)(void *arg, const struct image_row *row), void *arg, struct err *e)
{
	struct image_store s = IMAGE_STORE_NONE;
	struct image_listing l = { .s = &s, .each = each, .arg = arg };
	int r = image_store_open(IMAGE_READS, &s, e);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	l.named = calloc(IMAGES_MOST, sizeof(*l.named));
	r = l.named ? list_names(&l) : err_nomem(e);
	if (r == 0)
		r = list_nameless(&l);
	free(l.named);
	image_store_done(&s);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/authority/prepared.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/bytes/parcel.h"
#include "base/files/draft.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/text/cleanup.h"

#define MARK "brig authority 1"
#define FOLDER "authority"
#define AGE_MAX (24L * 3600)

/* So many runs at once find one each. */
enum { SLOTS = 4, SLOT_NAME = 4 };

static void slot_name(int slot, char name[SLOT_NAME])
{
	(void)snprintf(name, SLOT_NAME, "%d", slot % 10);
}

/* ---- the record ---- */

int prepared_write(const struct prepared_record *r, struct buf *out)
{
	struct parcel p = parcel_to(out, MARK);
	struct prepared_record copy = *r;

	parcel_text(&p, &copy.pem);
	parcel_bytes(&p, &copy.key, &copy.key_len);
	return out->failed ? -ENOMEM : 0;
}

int prepared_read(const char *data, size_t n, struct prepared_record *ret)
{
	struct parcel p = parcel_from(data, n, MARK);

	*ret = (struct prepared_record){ 0 };
	parcel_text(&p, &ret->pem);
	parcel_bytes(&p, &ret->key, &ret->key_len);
	if (!parcel_whole(&p) || !ret->pem || !*ret->pem || !ret->key_len ||
	    strlen(ret->pem) >= PREPARED_PEM_MAX || ret->key_len > PREPARED_KEY_MAX)
		return -EBADMSG;
	return 0;
}

/* ---- the files ---- */

static bool is_ours(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 077) &&
	       st->st_nlink == 1 && st->st_size > 0 && st->st_size <= PREPARED_MAX;
}

static bool is_fresh(const struct stat *st)
{
	time_t now = time(NULL);

	return st->st_mtime <= now && now - st->st_mtime < AGE_MAX;
}

static int read_pem(int fd, char pem[PREPARED_PEM_MAX])
{
	char text[PREPARED_MAX];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	struct prepared_record r;
	int code = n <= 0 ? -EBADMSG : prepared_read(text, (size_t)n, &r);

	if (code == 0)
		(void)snprintf(pem, PREPARED_PEM_MAX, "%s", r.pem);
	explicit_bzero(text, sizeof(text));
	return code;
}

/* Locked, and still what has that name. One that is too old or of another version goes. */
static int take_slot(int folder, int slot, char pem[PREPARED_PEM_MAX])
{
	char name[SLOT_NAME];
	CLEANUP(fd) int fd = -1;
	struct stat st;

	slot_name(slot, name);
	fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!is_ours(&st) || !is_fresh(&st) || read_pem(fd, pem) < 0) {
		if (st.st_nlink)
			(void)unlinkat(folder, name, 0);
		return -1;
	}
	return TAKE_FD(fd);
}

void prepared_take(struct prepared *p, char pem[PREPARED_PEM_MAX])
{
	struct err unused;
	/* Who embeds the library may have a state folder where an earlier command could write. */
	CLEANUP(fd) int folder = exposed_check_own(&unused) < 0 ? -1 : state_find(FOLDER, NULL, 0);

	p->fd = -1;
	for (int slot = 0; folder >= 0 && p->fd < 0 && slot < SLOTS; slot++) {
		p->slot = slot;
		p->fd = take_slot(folder, slot, pem);
	}
}

int prepared_spend(struct prepared *p)
{
	CLEANUP(fd) int folder = state_find(FOLDER, NULL, 0);
	char name[SLOT_NAME];

	slot_name(p->slot, name);
	return folder < 0 || unlinkat(folder, name, 0) < 0 ? -errno : 0;
}

void prepared_close(struct prepared *p)
{
	p->fd = fd_close(p->fd);
}

void prepared_keep(const char *record, size_t n)
{
	CLEANUP(fd) int folder = -1;
	struct prepared_record r;
	struct err unused;

	if (prepared_read(record, n, &r) < 0 || (folder = state_open(FOLDER, NULL, 0, &unused)) < 0)
		return;
	for (int slot = 0; slot < SLOTS; slot++) {
		char name[SLOT_NAME];
		struct draft d;

		slot_name(slot, name);
		if (faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (draft_open(folder, &d) < 0)
			return;
		if (fd_write_all(d.fd, record, n) < 0) {
			draft_drop(&d);
			return;
		}
		if (draft_keep_new(&d, name, 0600) != -EEXIST)
			return;
	}
}

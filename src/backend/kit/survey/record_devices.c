/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/survey/record_devices.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "backend/kit/survey/git_record.h"
#include "base/text/cleanup.h"

#define DEVICES "devices"
#define DRAFT ".devices" /* not all of them yet */
#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int put_device(int devices, dev_t dev)
{
	CLEANUP(fd) int fd = -1;
	char name[32];

	(void)snprintf(name, sizeof(name), "%llx", (unsigned long long)dev);
	fd = openat(devices, name, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : 0;
}

struct collect {
	int devices, error;
};

static bool collect_one(void *arg, int records UNUSED, const char *name)
{
	struct collect *c = arg;
	struct ident tree;

	if (c->error == 0 && record_ident(name, &tree))
		c->error = put_device(c->devices, tree.dev);
	return false;
}

/* Of the records of an earlier version. Several may be at it, and one may die: each puts all that
 * there are before it gives the folder its name. */
static int collect(int records)
{
	struct collect c = { .devices = -1 };
	CLEANUP(fd) int fd = -1;

	if (mkdirat(records, DRAFT, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = c.devices = openat(records, DRAFT, FOLDER);
	if (fd < 0)
		return -errno;
	folder_some(records, SIZE_MAX, &(int64_t){ 0 }, collect_one, &c);
	if (c.error == 0)
		(void)renameat(records, DRAFT, records, DEVICES);
	return c.error;
}

static int open_devices(int records)
{
	int fd = openat(records, DEVICES, FOLDER), r;

	if (fd >= 0 || errno != ENOENT)
		return fd < 0 ? -errno : fd;
	r = collect(records);
	fd = openat(records, DEVICES, FOLDER);
	return fd >= 0 ? fd : r < 0 ? r : -errno;
}

int record_device_note(int records, dev_t dev)
{
	CLEANUP(fd) int devices = open_devices(records);

	return devices < 0 ? devices : put_device(devices, dev);
}

static void show_if_there(int records, const struct ident *tree, folder_look *fn, void *arg)
{
	char name[RECORD_NAME_SIZE];

	record_name(tree, name);
	if (faccessat(records, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		(void)fn(arg, records, name);
}

struct listed {
	ino_t ino;
	folder_look *fn;
	void *arg;
};

static bool show_listed(void *arg, int records, const char *name)
{
	const struct listed *l = arg;
	struct ident tree;

	return record_ident(name, &tree) && tree.ino == l->ino && l->fn(l->arg, records, name);
}

void record_same_inode(int records, ino_t ino, folder_look *fn, void *arg)
{
	CLEANUP(fd) int devices = open_devices(records);
	struct listed l = { .ino = ino, .fn = fn, .arg = arg };
	struct ident tree = { .ino = ino };
	const struct fd_entry *one;
	unsigned long long dev;
	struct folder f;
	char *end;

	if (devices < 0) { /* no room for them */
		folder_some(records, SIZE_MAX, &(int64_t){ 0 }, show_listed, &l);
		return;
	}
	folder_begin(&f, devices);
	while ((one = folder_next(&f))) {
		dev = strtoull(one->name, &end, 16);
		if (*end)
			continue;
		tree.dev = (dev_t)dev;
		show_if_there(records, &tree, fn, arg);
	}
	if (f.error)
		folder_some(records, SIZE_MAX, &(int64_t){ 0 }, show_listed, &l);
}

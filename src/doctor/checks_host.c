/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_host.c - who one is inside, and where brig itself lies. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/kit/net/user_cable.h"
#include "backend/kit/plan/ids.h"
#include "base/files/fd.h"
#include "base/files/state.h"
#include "base/files/taken.h"
#include "doctor/machine.h"

enum {
	TAKEN_DAYS = 30, /* from then on the doctor says how to clear it */
	SECONDS_A_DAY = 86400,
};

void check_identity(struct machine *m, struct finding *f)
{
	CLEANUP(ids) struct ids *ids = NULL;
	struct err e = { 0 };

	if (geteuid() == 0 && ids_take(&ids, &e) < 0) {
		if (!e.hint[0])
			(void)err_hint(&e, "start brig as an ordinary user");
		say_error(f, CHECK_FAIL, &e);
		return;
	}
	if (!machine_works(m)) {
		finding_say(f, CHECK_SKIP, "not reached: the trial run failed");
		return;
	}
	if (ids)
		finding_say(f, CHECK_PASS, "you are root; inside you are uid %u, on the host %u",
			    m->isolation.uid_inside, ids_base(ids) + m->isolation.uid_inside);
	else
		finding_say(f, CHECK_PASS, "you are uid %u; inside you are uid %u", geteuid(),
			    m->isolation.uid_inside);
}

void check_idmap(struct machine *m, struct finding *f)
{
	CLEANUP(ids) struct ids *ids = NULL;
	CLEANUP(fd) int mapped = -1;
	char cwd[PATH_MAX];
	struct prepared_tree t = { .src = cwd };
	struct err e = { 0 };
	struct stat st;

	if (geteuid() != 0 || machine_userns(m) < 0) {
		finding_say(f, CHECK_SKIP, "%s",
			    geteuid() != 0 ? "only runs started by root need it"
					   : "not reached: no user namespace");
		return;
	}
	if (!getcwd(cwd, sizeof(cwd)) || stat(cwd, &st) < 0 || ids_take(&ids, &e) < 0) {
		finding_say(f, CHECK_SKIP, "the current folder or a range of ids is missing");
		return;
	}
	t.ident = ident_of(&st);
	t.disk_uid = st.st_uid;
	t.disk_gid = st.st_gid;
	mapped = ids_map_tree(&t, ids_base(ids) + 1000, ids_base(ids) + 1000, NULL, &e);
	if (mapped >= 0) {
		finding_say(f, CHECK_PASS, "'%s' can be shown to a sandbox with its owner", cwd);
		return;
	}
	finding_say(f, CHECK_WARN, "root's files in '%s' cannot be shown with their owner: %s", cwd,
		    strerrordesc_np(e.code));
	finding_hint(f, "work on ext4, xfs or btrfs and Linux 5.12 or newer, or start brig as the "
			"folder's owner");
}

/* Could the folder be made: is what there is of the path above it ours to write to? */
static bool can_make(const char *path)
{
	char part[PATH_MAX];
	char *slash;

	(void)snprintf(part, sizeof(part), "%s", path);
	while ((slash = strrchr(part, '/')) && slash > part) {
		*slash = '\0';
		if (access(part, F_OK) == 0)
			break;
	}
	return faccessat(AT_FDCWD, slash > part ? part : "/", W_OK | X_OK, AT_EACCESS) == 0;
}

/* Only for a folder that base/state would take, so that it makes no other. */
static bool can_use(const char *path)
{
	struct err e = { 0 };
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022))
		return false;
	fd = state_open(".", NULL, 0, &e);
	(void)fd_close(fd);
	return fd >= 0;
}

struct taken_seen {
	size_t n;
	int64_t oldest; /* seconds */
};

static int checks_host_count(void *arg, const struct taken_row *r)
{
	struct taken_seen *s = arg;

	if (!s->n++)
		s->oldest = r->when;
	return 0;
}

static void say_quarantine(const char *path, struct finding *f)
{
	struct taken_seen s = { .n = 0 };
	struct err e = { 0 };
	int64_t days;

	(void)taken_each(checks_host_count, &s, &e);
	days = ((int64_t)time(NULL) - s.oldest) / SECONDS_A_DAY;
	if (s.n && days >= TAKEN_DAYS)
		finding_say(f, CHECK_PASS,
			    "'%s'; in quarantine: %zu, for up to %lld days (brig quarantine; "
			    "brig quarantine clear --older %dd)",
			    path, s.n, (long long)days, TAKEN_DAYS);
	else if (s.n)
		finding_say(f, CHECK_PASS, "'%s'; in quarantine: %zu (brig quarantine)", path, s.n);
	else
		finding_say(f, CHECK_PASS, "'%s'", path);
}

void check_state(struct machine *m UNUSED, struct finding *f)
{
	char path[PATH_MAX];

	if (state_place(0, NULL, path, sizeof(path)) < 0) {
		finding_say(f, CHECK_WARN, "there is no HOME to keep what must survive a crash in");
	} else if (access(path, F_OK) < 0 && errno == ENOENT && can_make(path)) {
		finding_say(f, CHECK_PASS, "'%s', made when first needed", path);
		return;
	} else if (can_use(path)) {
		say_quarantine(path, f);
		return;
	} else {
		finding_say(f, CHECK_WARN,
			    "'%s' cannot be used: what must survive a crash goes "
			    "below XDG_RUNTIME_DIR, which a reboot empties, or nowhere",
			    path);
	}
	finding_hint(f, "set XDG_STATE_HOME to a folder of your own that nobody else can write to");
}

void check_installation(struct machine *m UNUSED, struct finding *f)
{
	char path[PATH_MAX];
	struct err e = { 0 };
	struct stat st;

	if (stat("/proc/self/exe", &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID))) {
		finding_say(f, CHECK_FAIL, "brig is setuid or setgid, which it is not made for");
		if (own_path(path, sizeof(path), &e) == 0)
			finding_hint(f, "sudo chmod u-s,g-s '%s'", path);
		return;
	}
	if (own_path(path, sizeof(path), &e) < 0 || path_guarded(path, false, &e) < 0)
		say_error(f, CHECK_WARN, &e);
	else
		finding_say(f, CHECK_PASS, "nobody else can replace '%s'", path);
}

/* An engine brings its own cable. */
void check_tun(struct machine *m, struct finding *f)
{
	bool needed = m->spec->network == NETWORK_BRIDGE &&
		      machine_needs(m, backend_with(BACKEND_BRIDGE));
	const char *path;
	struct err e = { 0 };

	if (user_cable_find(&path, &e) == 0)
		finding_say(f, needed ? CHECK_PASS : CHECK_SKIP,
			    "'%s' and /dev/net/tun: network bridge on native", path);
	else if (needed)
		say_error(f, CHECK_FAIL, &e);
	else
		finding_say(f, CHECK_SKIP, "%s", e.what);
}

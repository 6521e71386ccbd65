/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/setup/setup_write.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/draft.h"
#include "base/files/fd.h"

static int is_taken(const char *name, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EEXIST,
			  "--force replaces it, --dry-run prints what would be written",
			  "'%.100s' exists already and was left as it is", name);
}

int setup_can_write(int folder, const char *name, bool replace, struct err *e)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!replace)
			return is_taken(name, e);
		if (!S_ISREG(st.st_mode))
			return err_refuse(e, ERR_POLICY, EINVAL, "move it out of the way by hand",
					  "'%.100s' is not a plain file, and is not replaced",
					  name);
	} else if (errno != ENOENT) {
		return err_sys(e, "cannot look at '%.100s'", name);
	}
	if (faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) < 0) {
		(void)err_sys(e, "cannot write in this folder");
		return err_hint(e, "start it as who owns the project; --dry-run prints the file");
	}
	return 0;
}

static int write_draft(struct draft *d, const void *data, size_t n)
{
	int r = fd_write_all(d->fd, data, n);

	return r < 0 ? r : fsync(d->fd) < 0 ? -errno : 0;
}

int setup_write(int folder, const char *name, const void *data, size_t n, bool replace,
		struct err *e)
{
	struct draft d;
	sigset_t all, before;
	mode_t mask;
	int r;

	if (setup_can_write(folder, name, replace, e) < 0)
		return -e->code;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	mask = umask(022);
	(void)umask(mask);
	r = draft_open(folder, &d);
	if (r == 0) {
		r = write_draft(&d, data, n);
		if (r < 0)
			draft_drop(&d);
		else
			r = (replace ? draft_keep : draft_keep_new)(&d, name, 0666 & ~mask);
	}
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (r == -EEXIST)
		return is_taken(name, e);
	return r < 0 ? err_errno(e, r, "cannot write '%.100s'", name) : 0;
}

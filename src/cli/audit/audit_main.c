/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/audit_main.c - brig-audit: reads the record. Started by `brig audit`. */
#include "audit/dir.h"
#include "base/files/fd.h"
#include "base/sys/program.h"
#include "cli/audit/asked.h"
#include "cli/cli.h"

int asked_open_dir(const struct asked *a, char path[PATH_MAX], struct err *e)
{
	int fd = audit_dir_open(a->dir, false, path, PATH_MAX, e);

	return fd == -ENOENT ? err_refuse(e, ERR_USAGE, ENOENT,
					  "the first brig run makes it; --dir names another folder",
					  "there is no record in '%.200s'", path)
			     : fd;
}

int main(int argc, char **argv)
{
	static int (*const run[AUDIT_COMMANDS])(const struct asked *a, struct err *e) = {
		[AUDIT_LIST] = audit_list,     [AUDIT_RUNS] = audit_runs,
		[AUDIT_SHOW] = audit_show,     [AUDIT_SECURITY] = audit_list,
		[AUDIT_EXPORT] = audit_list,   [AUDIT_TAIL] = audit_tail,
		[AUDIT_VERIFY] = audit_verify, [AUDIT_PRUNE] = audit_prune,
	};
	CLEANUP(spec) struct spec *s = NULL;
	struct asked a;
	struct err e = { 0 };
	int r;

	program_is_brig();
	if (fd_ensure_stdio() < 0)
		return EXIT_BRIG;
	if (asked_parse(argc, argv, &a, &e) < 0) {
		error_print(&e);
		return EXIT_BRIG;
	}
	s = spec_new(&e);
	r = s ? asked_settle(&a, s, &e) : -e.code;
	if (r == 0)
		r = run[a.command](&a, &e);
	if (r < 0)
		error_print(&e);
	/* What cannot be verified is not untouched; a run that is not there is an answer too. */
	return r >= 0 ? r : e.kind == ERR_USAGE || a.command == AUDIT_VERIFY ? 1 : EXIT_BRIG;
}

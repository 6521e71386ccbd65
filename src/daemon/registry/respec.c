/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/registry/respec.c - the spec of a sandbox: read, and while it is stopped written anew. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "daemon/registry/sandboxes_internal.h"

enum problem sandboxes_spec(struct sandboxes *s, const char *tenant, const char *ref,
			    struct buf *out, struct err *e)
{
	const struct sandbox_entry *b = entry_find(s, tenant, ref);
	CLEANUP(fd) int folder = b ? entry_folder(b) : -1;
	CLEANUP(mem) char *text = b ? malloc(SPEC_MAX + 1) : NULL;
	ssize_t n;

	if (!b)
		return entry_missing(ref, e);
	n = text && folder >= 0 ? fd_read_file(folder, MONITOR_SPEC, text, SPEC_MAX + 1) : -1;
	if (n < 0)
		return problem_say(PROBLEM_SANDBOX_NOT_READY, e, "sandbox '%s' is %s", b->id,
				   state_word(b->state));
	buf_add(out, text, (size_t)n);
	return out->failed ? problem_nomem(e) : PROBLEM_NONE;
}

/* Its folder, if it is stopped; else a problem. */
static enum problem stopped_folder(struct sandboxes *s, const char *tenant, const char *ref,
				   struct sandbox_entry **b, int *folder, struct err *e)
{
	*b = entry_find(s, tenant, ref);
	if (!*b)
		return entry_missing(ref, e);
	if ((*b)->state != STATE_STOPPED || (*b)->opening || (*b)->link.fd >= 0) {
		(void)problem_say(PROBLEM_CONFLICT, e, "sandbox '%s' is %s", (*b)->id,
				  state_word((*b)->state));
		(void)err_hint(e, "stop it first; what it may do holds until then");
		return PROBLEM_CONFLICT;
	}
	*folder = entry_folder(*b);
	return *folder < 0 ? (err_sys(e, "cannot open its folder"), PROBLEM_INTERNAL)
			   : PROBLEM_NONE;
}

enum problem sandboxes_asked(struct sandboxes *s, const char *tenant, const char *ref, char *whose,
			     struct buf *asked, struct buf *narrowed, struct err *e)
{
	CLEANUP(fd) int folder = -1;
	struct sandbox_entry *b;
	enum problem p = stopped_folder(s, tenant, ref, &b, &folder, e);

	if (p != PROBLEM_NONE)
		return p;
	(void)snprintf(whose, TENANT_SIZE, "%s", b->tenant);
	entry_read_text(folder, MONITOR_ASKED, asked);
	entry_read_text(folder, MONITOR_NARROWED, narrowed);
	return PROBLEM_NONE;
}

/* The old one holds until the new one is whole. */
static enum problem respec_replace(struct sandboxes *s, const char *tenant, const char *ref,
				   const char *name, const char *text, size_t n, struct err *e)
{
	static const char beside[] = "new";
	CLEANUP(fd) int folder = -1;
	struct sandbox_entry *b;
	enum problem p = stopped_folder(s, tenant, ref, &b, &folder, e);
	int r;

	if (p != PROBLEM_NONE)
		return p;
	(void)unlinkat(folder, beside, 0);
	r = n > SPEC_MAX ? -EMSGSIZE : entry_write_text(folder, beside, text, n);
	if (r == 0 && renameat(folder, beside, folder, name) < 0)
		r = -errno;
	return r < 0 ? (err_errno(e, r, "cannot write the spec of '%s'", b->id), PROBLEM_INTERNAL)
		     : PROBLEM_NONE;
}

enum problem sandboxes_respec(struct sandboxes *s, const char *tenant, const char *ref,
			      const char *spec, size_t n, struct err *e)
{
	return respec_replace(s, tenant, ref, MONITOR_SPEC, spec, n, e);
}

enum problem sandboxes_narrow(struct sandboxes *s, const char *tenant, const char *ref,
			      const char *narrowed, size_t n, struct err *e)
{
	return respec_replace(s, tenant, ref, MONITOR_NARROWED, narrowed, n, e);
}

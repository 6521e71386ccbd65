/* SPDX-License-Identifier: Apache-2.0 */
/* backend/backends.c - which backend a spec gets, and the refusal of what it cannot honour. */
#include "backend/backend.h"
#include "backend/kit/journal.h"

static const struct backend *const all[] = { &backend_native, &backend_none };

static const struct backend *by_kind(enum backend_kind kind)
{
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i]->kind == kind)
			return all[i];
	return NULL;
}

static const char *one_that_honours(const struct field *f)
{
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (f->honoured & all[i]->bit)
			return all[i]->name;
	return NULL;
}

void backends_tidy(void)
{
	journal_sweep();
}

static int check_honoured(const struct spec *s, const struct backend *b, struct err *e)
{
	for (int id = 0; id < FIELD_COUNT; id++) {
		const struct field *f = &fields[id];
		const char *able;

		if (!spec_wrote(s, (enum field_id)id) || f->honoured & b->bit)
			continue;
		able = one_that_honours(f);
		(void)err_set(e, ERR_UNAVAILABLE, ENOTSUP, "backend '%s' cannot honour %s%s",
			      b->name, f->flag ? "--" : "", f->flag ? f->flag : f->key);
		return able ? err_hint(e, "backend '%s' can", able)
			    : err_hint(e, "no backend in this version of brig can");
	}
	return 0;
}

static int check_later(const struct spec *s, struct err *e)
{
	if (s->workspace_mode == WORKSPACE_OVERLAY)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP,
			       "workspace.mode 'overlay' is not in this version of brig"),
		       err_hint(e, "use --policy readonly to keep the workspace as it is");
	if (s->network != NETWORK_BRIDGE)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, ENOTSUP, "network '%s' is not in this version of brig",
		       fields[FIELD_NETWORK].words[s->network]),
	       err_hint(e, "use --network none, or --network host to share the host's network");
}

/* Two words for the same thing, and both must be meant. */
static int check_host_run(const struct spec *s, struct err *e)
{
	bool full = s->policy == POLICY_FULL_ACCESS;

	if (full && spec_wrote(s, FIELD_BACKEND) && s->backend != BACKEND_NONE &&
	    s->backend != BACKEND_AUTO)
		return err_set(e, ERR_USAGE, EINVAL,
			       "policy full_access means no sandbox: it excludes backend '%s'",
			       fields[FIELD_BACKEND].words[s->backend]);
	if (s->full_access_ok)
		return 0;
	return err_set(e, ERR_POLICY, EPERM, "%s runs on the host, outside of any sandbox",
		       full ? "policy full_access" : "backend none"),
	       err_hint(e,
			"if that is meant: brig run --%s --i-know-this-is-not-a-sandbox -- %.60s "
			"...",
			full ? "policy full_access" : "backend none",
			s->argv && s->argv[0] ? s->argv[0] : "COMMAND");
}

int backend_choose(const struct spec *s, const struct backend **ret, struct err *e)
{
	bool host = s->policy == POLICY_FULL_ACCESS || s->backend == BACKEND_NONE;
	enum backend_kind kind = host                         ? BACKEND_NONE
				 : s->backend == BACKEND_AUTO ? BACKEND_NATIVE
							      : s->backend;
	const struct backend *b = by_kind(kind);

	if (!b)
		return err_set(e, ERR_UNAVAILABLE, ENOTSUP,
			       "backend '%s' is not in this version of brig",
			       fields[FIELD_BACKEND].words[s->backend]),
		       err_hint(e, "use --backend native");
	if ((!host && check_later(s, e) < 0) || (host && check_host_run(s, e) < 0) ||
	    check_honoured(s, b, e) < 0)
		return -e->code;
	*ret = b;
	return 0;
}

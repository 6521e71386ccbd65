/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/scan/match.h"

#include <hs/hs.h>
#include <limits.h>

struct matcher {
	hs_database_t *db; /* NULL: no literals, nothing is ever found */
	hs_scratch_t *scratch;
	unsigned others; /* who share it */
};

struct match_stream {
	struct matcher *matcher;
	hs_stream_t *stream;
};

struct match_call {
	match_fn *fn;
	void *context;
};

/* vectorscan's own question takes processors on which it then meets an unknown instruction. */
static int processor_fits(struct err *e)
{
#if defined(__x86_64__)
	if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt"))
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "a virtual machine may hide them: give it the host's model "
				  "(QEMU: -cpu host)",
				  "the leak scan needs a processor with SSE4.2 and POPCNT");
#endif
	if (hs_valid_platform() != HS_SUCCESS)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "use network none or host, which need no door",
				  "the leak scan cannot run on this processor");
	return 0;
}

static int match_compile(struct matcher *m, const struct literal *l, size_t n, struct err *e)
{
	CLEANUP(mem) const char **texts = calloc(n, sizeof(*texts));
	CLEANUP(mem) unsigned *flags = calloc(n, sizeof(*flags)), *ids = calloc(n, sizeof(*ids));
	CLEANUP(mem) size_t *lens = calloc(n, sizeof(*lens));
	hs_compile_error_t *fault = NULL;

	if (!texts || !flags || !ids || !lens || n > UINT_MAX)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		texts[i] = l[i].p;
		lens[i] = l[i].n;
		flags[i] = l[i].caseless ? HS_FLAG_CASELESS : 0;
		ids[i] = (unsigned)i;
	}
	if (hs_compile_lit_multi(texts, flags, ids, lens, (unsigned)n, HS_MODE_STREAM, NULL, &m->db,
				 &fault) != HS_SUCCESS) {
		/* The text of the fault may quote a literal, which may be a secret. */
		hs_free_compile_error(fault);
		return err_set(e, ERR_INTERNAL, EINVAL,
			       "the patterns of the leak scan cannot be compiled");
	}
	if (hs_alloc_scratch(m->db, &m->scratch) != HS_SUCCESS)
		return err_nomem(e);
	return 0;
}

int matcher_new(const struct literal *l, size_t n, struct matcher **ret, struct err *e)
{
	CLEANUP(matcher) struct matcher *m = calloc(1, sizeof(*m));

	if (!m)
		return err_nomem(e);
	if (n && (processor_fits(e) < 0 || match_compile(m, l, n, e) < 0))
		return -e->code;
	*ret = TAKE_PTR(m);
	return 0;
}

struct matcher *matcher_share(struct matcher *m)
{
	m->others++;
	return m;
}

struct matcher *matcher_free(struct matcher *m)
{
	if (m && m->others) {
		m->others--;
		return NULL;
	}
	if (m) {
		(void)hs_free_scratch(m->scratch);
		(void)hs_free_database(m->db);
	}
	free(m);
	return NULL;
}

int match_open(struct matcher *m, struct match_stream **ret, struct err *e)
{
	CLEANUP(match_stream) struct match_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return err_nomem(e);
	s->matcher = m;
	if (m->db && hs_open_stream(m->db, 0, &s->stream) != HS_SUCCESS)
		return err_nomem(e);
	*ret = TAKE_PTR(s);
	return 0;
}

struct match_stream *match_close(struct match_stream *s)
{
	/* Literals have all been told by the time their last byte was fed. */
	if (s && s->stream)
		(void)hs_close_stream(s->stream, NULL, NULL, NULL);
	free(s);
	return NULL;
}

void match_reset(struct match_stream *s)
{
	if (s->stream)
		(void)hs_reset_stream(s->stream, 0, NULL, NULL, NULL);
}

static int on_match(unsigned id, unsigned long long from UNUSED, unsigned long long to,
		    unsigned flags UNUSED, void *context)
{
	const struct match_call *c = context;

	return c->fn(c->context, id, to) ? 0 : 1;
}

int match_feed(struct match_stream *s, const char *p, size_t n, match_fn *fn, void *context)
{
	struct match_call call = { .fn = fn, .context = context };

	while (s->stream && n) {
		/* vectorscan counts in 32 bits */
		unsigned take = n > (1U << 30) ? 1U << 30 : (unsigned)n;
		hs_error_t r =
			hs_scan_stream(s->stream, p, take, 0, s->matcher->scratch, on_match, &call);

		if (r == HS_SCAN_TERMINATED)
			return 1;
		if (r != HS_SUCCESS)
			return -EIO;
		p += take;
		n -= take;
	}
	return 0;
}

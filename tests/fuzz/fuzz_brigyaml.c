/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_brigyaml.c - any bytes as a brig.yaml, once with trust and once without.
 *
 * What is accepted and checked is shown as a brig.yaml that reads back to the same. What an
 * untrusted project's file leaves after the check of its direction is no weaker than the defaults.
 */
#include "fuzz.h"

#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/files/config.h"
#include "model/files/trust.h"

static const struct place at = { .cwd = "/src/project", .home = "/home/me" };

static struct spec *read_as(const char *data, size_t n, enum origin origin, struct err *e)
{
	const struct source src = { .name = "f.yaml",
				    .folder = "/src/project",
				    .home = "/home/me",
				    .cwd = "/src/project",
				    .origin = origin,
				    .trusted = origin != ORIGIN_PROJECT };
	struct spec *s = spec_new(e);
	enum dialect was;

	require(s != NULL);
	if (config_read_text(s, data, n, DIALECT_BRIG, &src, &was, e) < 0) {
		require(e->code > 0 && e->what[0]);
		return spec_free(s);
	}
	return s;
}

static void require_round_trip(const char *data, size_t n)
{
	struct buf one = BUF_INIT((size_t)8 << 20), two = BUF_INIT((size_t)8 << 20);
	struct err e = { 0 };
	struct spec *s = read_as(data, n, ORIGIN_FILE, &e), *again;

	if (!s || spec_check(s, &at, &e) < 0) {
		(void)spec_free(s);
		return;
	}
	config_show(s, false, &one);
	require(!one.failed);
	/* Doubling escapes may take it over what a file may have. */
	again = one.len < (size_t)1 << 20 ? read_as(buf_str(&one), one.len, ORIGIN_FILE, &e) : NULL;
	require(again || one.len >= (size_t)1 << 20);
	if (again) {
		require(spec_check(again, &at, &e) == 0);
		config_show(again, false, &two);
		require(str_eq(buf_str(&one), buf_str(&two)));
	}
	(void)spec_free(again);
	(void)spec_free(s);
	buf_done(&one);
	buf_done(&two);
}

static void require_tighter(const char *data, size_t n)
{
	struct err e = { 0 };
	struct spec *before = spec_new(&e), *s = read_as(data, n, ORIGIN_PROJECT, &e);

	require(before != NULL);
	if (s && tighten_check(before, s, ORIGIN_PROJECT, "f.yaml", NULL, &e) == 0) {
		require(s->policy <= before->policy && s->backend == before->backend);
		require(s->network == NETWORK_NONE && s->profile <= before->profile);
		require(s->limits.memory <= before->limits.memory && s->limits.memory);
		require(s->command.timeout <= before->command.timeout && s->command.timeout);
		require(s->limits.pids <= before->limits.pids && s->limits.pids);
		require(s->command.output <= before->command.output && s->command.output);
		require(!s->mounts.n && !s->read.n && !s->write.n && !s->env_pass.n &&
			!s->copies.n);
		require(!s->full_access_ok && s->read_only_root && !s->workdir && !s->image);
		require(!s->egress.allow.n && !s->egress.groups.n && !s->mount_roots.n);
	}
	(void)spec_free(before);
	(void)spec_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	require_round_trip((const char *)data, size);
	require_tighter((const char *)data, size);
	return 0;
}

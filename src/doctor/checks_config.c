/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/checks_config.c - what the configuration asks for, before anything runs.
 *
 * Texts that a seed documents are kept word for word in its dialect. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "doctor/machine.h"
#include "model/dialect/dialect.h"
#include "model/settings/paths.h"

#define ENV_MANY 6

static bool in_dialect(const struct machine *m, enum dialect d)
{
	return m->spec && m->spec->dialect_used == (int)d;
}

static const char *temp_folder(void)
{
	const char *t = getenv("TMPDIR");

	return t && t[0] == '/' ? t : "/tmp";
}

static bool on_host(const struct machine *m)
{
	return m->spec && spec_on_host(m->spec);
}

void check_configured(struct machine *m, struct finding *f)
{
	enum backend_kind kind = m->spec ? m->spec->backend : BACKEND_AUTO;
	const char *word = fields[FIELD_BACKEND].words[kind];
	const struct backend *b = backend_by_kind(kind);
	bool bare = b && b->can & BACKEND_BARE;

	if (in_dialect(m, DIALECT_RLM)) {
		finding_say(f, CHECK_PASS, "Runtime set to '%s'.", bare ? "local" : word);
		return;
	}
	b = machine_backend(m);
	if (!b && kind == BACKEND_AUTO && m->refusal.kind == ERR_UNAVAILABLE)
		finding_say(f, CHECK_SKIP,
			    "backend auto: the row 'sandbox' says why none is ready");
	else if (!b)
		say_error(f, CHECK_FAIL, &m->refusal);
	else if (kind == BACKEND_AUTO)
		finding_say(f, CHECK_PASS, "backend auto: %s would run it", b->name);
	else
		finding_say(f, b->can & BACKEND_BARE ? CHECK_WARN : CHECK_PASS, "backend '%s'%s",
			    b->name, b->can & BACKEND_BARE ? ": no sandbox at all" : "");
	if (f->status != CHECK_PASS && f->status != CHECK_SKIP && !f->hint[0])
		finding_hint(f, "use --backend auto");
}

void check_env_allowlist(struct machine *m, struct finding *f)
{
	size_t n = m->spec ? m->spec->env_pass.n : 0;

	if (m->spec && m->spec->dialect_used)
		finding_say(f, n > ENV_MANY ? CHECK_WARN : CHECK_PASS,
			    "%zu host env var(s) allowed.", n);
	else
		finding_say(f, n > ENV_MANY ? CHECK_WARN : CHECK_PASS,
			    "%zu of your variables %s passed by name", n, n == 1 ? "is" : "are");
	if (n > ENV_MANY)
		finding_hint(f, "pass only what the command needs: each may hold a secret");
}

void check_network_policy(struct machine *m, struct finding *f)
{
	bool rlm = in_dialect(m, DIALECT_RLM);
	enum network net = m->spec ? m->spec->network : NETWORK_NONE;
	bool ssh = m->spec && spec_over_ssh(m->spec) && m->spec->ssh.remote == SSH_REMOTE_PLAIN;

	if (on_host(m))
		finding_say(f, CHECK_WARN, "network host: the command is not in a sandbox");
	else if (ssh)
		finding_say(f, CHECK_WARN,
			    "network %s is not enforced: a command by ssh has the other host's "
			    "network",
			    fields[FIELD_NETWORK].words[net]);
	else if (net == NETWORK_NONE)
		finding_say(f, CHECK_PASS, "%s",
			    rlm ? "Container networking is disabled." : "network none");
	else if (net == NETWORK_PROXY)
		finding_say(f, CHECK_PASS, "network proxy: only what the allowlist names");
	else
		finding_say(f, CHECK_WARN, "%s%s",
			    rlm ? "Container networking is enabled: network " : "network ",
			    fields[FIELD_NETWORK].words[net]);
	if (f->status == CHECK_WARN)
		finding_hint(f, on_host(m) || ssh
					? "the command can send away what it reads; use a backend "
					  "that is a sandbox"
					: "the command can send away what it reads; use network "
					  "none where it needs no network");
}

/* The readers have refused what is not permitted: what arrives here has passed. */
void check_extra_args(struct machine *m, struct finding *f)
{
	size_t n = m->spec ? m->spec->docker.extra_args.n : 0;

	if (in_dialect(m, DIALECT_RLM))
		finding_say(f, CHECK_PASS, "Docker extra args passed policy checks.");
	else
		finding_say(f, CHECK_PASS, "%zu extra argument(s), none that loosens the sandbox",
			    n);
}

static bool permitted(const struct spec *s, const char *path)
{
	if (!s || !s->mount_roots.n)
		return true;
	for (size_t i = 0; i < s->mount_roots.n; i++)
		if (path_under(path, s->mount_roots.v[i]))
			return true;
	return false;
}

void check_mount_policy(struct machine *m, struct finding *f)
{
	const char *temp = temp_folder();
	struct err e = { 0 };
	const struct backend *b = machine_backend(m);

	if (machine_spec_fits(m, b, &e) < 0) {
		say_error(f, CHECK_FAIL, &e);
		if (!f->hint[0])
			finding_hint(f, "start brig in a folder that is permitted, or name it in "
					"the configuration");
	} else if (in_dialect(m, DIALECT_RLM) && !permitted(m->spec, temp)) {
		finding_say(f, CHECK_FAIL, "Temp dir '%s' is outside the allowed mount roots.",
			    temp);
		finding_hint(f, "add it to sandbox.allowed_mount_roots, or set TMPDIR");
	} else if (in_dialect(m, DIALECT_RLM)) {
		finding_say(f, CHECK_PASS, "Temp dir '%s' is allowed for bind mounts.", temp);
	} else {
		finding_say(f, CHECK_PASS, "%zu mount(s), all permitted",
			    m->spec ? m->spec->mounts.n + m->spec->read.n + m->spec->write.n : 0);
	}
}

void check_temp(struct machine *m, struct finding *f)
{
	const char *temp = temp_folder();

	if (access(temp, W_OK | X_OK) == 0) {
		finding_say(f, CHECK_PASS, "Writable temp directory: %s", temp);
		return;
	}
	finding_say(f, in_dialect(m, DIALECT_RLM) ? CHECK_FAIL : CHECK_WARN,
		    "Temp directory is not writable: %s", temp);
	finding_hint(f, "set TMPDIR to a folder of yours");
}

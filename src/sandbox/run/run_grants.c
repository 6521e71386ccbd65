/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/run/run_grants.c - a word about keys of the caller's that a grant shows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/buf.h"
#include "model/settings/paths.h"
#include "sandbox/run/run.h"

/* Below HOME; what has them is as good as its user, here or elsewhere. */
static const char *const key_folders[] = {
	".ssh",
	".gnupg",
	".aws",
	".azure",
	".config/gcloud",
	".kube",
	".docker",
	".netrc",
	".git-credentials",
	".config/gh",
	".password-store",
	".local/share/keyrings",
	".mozilla",
	".thunderbird",
	".config/google-chrome",
	".config/chromium",
};

static bool run_grants_shows(const char *grant, const char *key)
{
	char real[PATH_MAX];

	return grant && realpath(grant, real) && path_under(key, real);
}

static bool run_grants_is_shown(const struct spec *s, const char *key)
{
	for (size_t i = 0; i < s->read.n; i++)
		if (run_grants_shows(s->read.v[i], key))
			return true;
	for (size_t i = 0; i < s->write.n; i++)
		if (run_grants_shows(s->write.v[i], key))
			return true;
	for (size_t i = 0; i < s->mounts.n; i++)
		if (run_grants_shows(s->mounts.v[i].source, key))
			return true;
	return false;
}

/* Asked for is asked for; but who names a folder may not think of what is in it. */
void run_note_keys(const struct sandbox *s)
{
	const struct spec *spec = s->spec;
	const char *home = getenv("HOME");
	CLEANUP(buf) struct buf text = BUF_INIT(1024);
	char path[PATH_MAX], real[PATH_MAX];

	if (!s->note || !home || home[0] != '/' ||
	    !(spec->read.n || spec->write.n || spec->mounts.n))
		return;
	for (size_t i = 0; i < ARRAY_LEN(key_folders); i++) {
		if (snprintf(path, sizeof(path), "%s/%s", home, key_folders[i]) >=
			    (int)sizeof(path) ||
		    !realpath(path, real) || !run_grants_is_shown(spec, real))
			continue;
		buf_printf(
			&text, "%s'~/%s'",
			text.len ? ", " : "the command can read keys of yours: ", key_folders[i]);
	}
	if (!text.len)
		return;
	buf_puts(&text, "; a narrower --read, --write or --mount leaves them out");
	s->note(s->note_arg, buf_str(&text));
}

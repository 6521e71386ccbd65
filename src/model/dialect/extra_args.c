/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/extra_args.c - reads flags of `docker run`; what has no row in the table is
 * refused.
 *
 * Docker's own reader decides what a token means, so this one reads as it does: a flag that takes a
 * value takes the next token, a short flag takes the rest of its own. Where the two could disagree
 * (a value that begins with a dash, a bare word) the list is refused. */
#include "model/dialect/extra_args.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/extra_args_table.h"

#define ARGS_MAX 256 /* tokens; each flag is compared with all before it */
#define VALUE_MAX 1024
#define FLAGS_MAX 32 /* rows of the table that a nearest word is looked for in */

/* clang-format off */
/* Refused flags whose purpose a field of the file serves, or that the reader deserves a reason for. */
static const struct {
	const char *flag, *letter;
	const char *hint[EXTRA_ARGS_RLM + 1]; /* by style; NULL: nothing to say */
} known[] = {
	{ "--runtime", NULL, { "use runtime", "use docker.runtime", NULL } },
	{ "--memory", "-m", { "use limits.memory", "use memory_limit", "use memory_limit_mb" } },
	{ "--network", NULL, { "use network", "use network", "use network_enabled" } },
	{ "--net", NULL, { "use network", "use network", "use network_enabled" } },
	{ "--user", "-u", { "use user", "use docker.user", NULL } },
	{ "--env", "-e", { "use env.set or env.pass", "use env_passthrough", "use env_allowlist" } },
	{ "--env-file", NULL, { "use env.set or env.pass", "use env_passthrough", "use env_allowlist" } },
	{ "--volume", "-v", { "use mounts", "use bind_mounts", "only the working folder is mounted" } },
	{ "--mount", NULL, { "use mounts", "use bind_mounts", "only the working folder is mounted" } },
	{ "--volumes-from", NULL, { "use mounts", "use bind_mounts", "only the working folder is mounted" } },
	{ "--workdir", "-w", { "use workspace.target", "the working folder is /work", "the working folder is /workspace" } },
	{ "--publish", "-p", { "use ports", NULL, NULL } },
	{ "--gpus", NULL, { "use gpus", "only --gpus=all is accepted", NULL } },
	{ "--pull", NULL, { "use docker.auto_pull", NULL, NULL } },
	{ "--name", NULL, { "brig names its containers itself", "brig names its containers itself",
		"brig names its containers itself" } },
	{ "--rm", NULL, { "containers are always removed", "containers are always removed", "containers are always removed" } },
	{ "--init", NULL, { "there is always an init", "there is always an init", "there is always an init" } },
	{ "--oom-kill-disable", NULL, { "a memory limit that cannot end the command is none",
		"a memory limit that cannot end the command is none", "a memory limit that cannot end the command is none" } },
};
/* clang-format on */

/* The token as it may be shown: cut, and without bytes that move a terminal's cursor. */
static const char *shown(const char *token, char *out, size_t n)
{
	size_t len = strlen(token), extra_args_keep = len < n ? len : utf8_cut(token, n - 4);

	for (size_t i = 0; i < extra_args_keep; i++)
		out[i] = (unsigned char)token[i] < 0x20 || token[i] == 0x7f ? '?' : token[i];
	(void)snprintf(out + extra_args_keep, n - extra_args_keep, "%s",
		       extra_args_keep < len ? "..." : "");
	return out;
}

static int blocked(enum extra_args_style style, const char *token, struct err *e)
{
	char text[160];

	(void)shown(token, text, sizeof(text));
	if (style == EXTRA_ARGS_RLM)
		return err_set(e, ERR_POLICY, EPERM,
			       "Docker extra arg '%s' is blocked by sandbox policy.", text);
	return err_set(e, ERR_POLICY, EPERM, "extra arg '%s' is blocked by sandbox policy", text);
}

/* Takes the name of a flag off the token: "--flag", or "-x" of "-xvalue". */
static size_t name_length(const char *token)
{
	if (token[1] != '-')
		return token[1] ? 2 : 1;
	return strcspn(token, "=");
}

static bool extra_args_named(const char *token, size_t n, const char *flag)
{
	return flag && strlen(flag) == n && memcmp(token, flag, n) == 0;
}

static int refuse_flag(enum extra_args_style style, const char *token, struct err *e)
{
	const char *flags[FLAGS_MAX + 1] = { 0 }, *near;
	size_t n = name_length(token);
	char name[48];

	(void)blocked(style, token, e);
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if ((extra_args_named(token, n, known[i].flag) ||
		     extra_args_named(token, n, known[i].letter)) &&
		    known[i].hint[style])
			return err_hint(e, "%s", known[i].hint[style]);
	for (size_t i = 0; i < extra_args_rows && i < FLAGS_MAX; i++)
		flags[i] = extra_args_table[i].flag;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : 0), token);
	near = token[1] == '-' && n > 6 ? str_nearest(name, flags) : NULL;
	if (near)
		return err_hint(e, "did you mean '%s'? Abbreviations are not accepted", near);
	return err_hint(e, "only flags that cannot weaken the sandbox are accepted: limits within "
			   "bounds, labels, the host name, tmpfs without exec");
}

static int refuse_value(enum extra_args_style style, const char *token, const struct allowed *a,
			struct err *e)
{
	(void)blocked(style, token, e);
	return err_hint(e, "%s takes %s", a->flag, a->takes);
}

static int refuse_word(enum extra_args_style style, const char *token, struct err *e)
{
	(void)blocked(style, token, e);
	return err_hint(e, "a word that belongs to no flag would become the image");
}

/* The row of the token's flag, and the value glued to it or NULL. */
static const struct allowed *extra_args_find(const char *token, enum extra_args_style style,
					     const char **value)
{
	size_t n = name_length(token);

	for (size_t i = 0; i < extra_args_rows; i++) {
		const struct allowed *a = &extra_args_table[i];
		bool is_long = extra_args_named(token, n, a->flag);
		bool is_short = token[1] != '-' && token[1] && token[1] == a->letter;

		if (!(a->styles & 1U << style) || (!is_long && !is_short))
			continue;
		*value = token[n] == '=' ? token + n + 1 : is_short && token[n] ? token + n : NULL;
		return a;
	}
	return NULL;
}

/* Whether a later use of a flag takes the place of an earlier one. */
static bool same_slot(const struct allowed *a, const struct extra_arg *before, const char *value)
{
	size_t n;

	if (before->flag != a->flag)
		return false;
	if (!a->key)
		return true;
	n = strcspn(value, a->key);
	return strcspn(before->value, a->key) == n && memcmp(before->value, value, n) == 0;
}

static void extra_args_keep(struct extra_arg *out, size_t *n, const struct allowed *a,
			    const char *value)
{
	size_t i = 0;

	while (i < *n && !same_slot(a, &out[i], value))
		i++;
	out[i] = (struct extra_arg){ .flag = a->flag, .value = value, .api = a->api };
	*n += i == *n;
}

/* Reads the flag at *i and moves *i to the last token it took; NULL and *e when it is refused. */
static const struct allowed *take_flag(const struct strlist *args, size_t *i,
				       enum extra_args_style style, const char **value,
				       struct err *e)
{
	const char *token = args->v[*i];
	const struct allowed *a;

	if (str_has_control(token)) {
		(void)blocked(style, token, e);
		(void)err_hint(e, "it has a control character");
		return NULL;
	}
	if (token[0] != '-')
		return (void)refuse_word(style, token, e), NULL;
	a = extra_args_find(token, style, value);
	if (!a)
		return (void)refuse_flag(style, token, e), NULL;
	if (!*value && a->alone)
		*value = a->takes;
	/* Docker would take a following flag for the value; that is never what was meant. */
	if (!*value && *i + 1 < args->n && args->v[*i + 1][0] != '-')
		*value = args->v[++*i];
	if (!*value || strlen(*value) > VALUE_MAX || str_has_control(*value) ||
	    !a->valid(a, *value))
		return (void)refuse_value(style, token, a, e), NULL;
	return a;
}

int extra_args_check(const struct strlist *args, enum extra_args_style style, struct extra_arg *out,
		     size_t *n, struct err *e)
{
	size_t count = 0;

	if (args->n > ARGS_MAX) {
		(void)blocked(style, args->v[ARGS_MAX], e);
		return err_hint(e, "at most %d words are accepted", ARGS_MAX);
	}
	for (size_t i = 0; i < args->n; i++) {
		const char *value = NULL;
		const struct allowed *a = take_flag(args, &i, style, &value, e);

		if (!a)
			return -e->code;
		if (out)
			extra_args_keep(out, &count, a, value);
	}
	if (n)
		*n = count;
	return 0;
}

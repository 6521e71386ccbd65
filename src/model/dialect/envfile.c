/* SPDX-License-Identifier: Apache-2.0 */
/* model/dialect/envfile.c - KEY=value lines, as IronClaw's .env file has them.
 *
 * Nothing is expanded and nothing is executed. The file usually holds more than the sandbox's
 * settings, so other names are read past as a shell or a dotenv reader would; where those two
 * differ about a SANDBOX_ value ($, backticks, backslashes, quotes in the middle), it is refused.
 */
#include <string.h>

#include "base/text/str.h"
#include "model/dialect/dialect.h"
#include "model/settings/envrules.h"

#define FILE_MAX ((size_t)1 << 20)
#define LINES_MAX 4096 /* each name is compared with all before it */
#define OURS "SANDBOX_"

struct envfile_reader {
	struct arena *arena;
	const char *name;
	const char *p, *end, *bol; /* here, behind the last byte, begin of this line */
	int line;
	struct env_line *v;
	size_t n;
};

static int envfile_fail(const struct envfile_reader *r, struct err *e, const char *what)
{
	return err_set(e, ERR_CONFIG, EINVAL, "%.128s:%d:%d: %s", r->name, r->line,
		       (int)(r->p - r->bol) + 1, what);
}

static bool at(const struct envfile_reader *r, char c)
{
	return r->p < r->end && *r->p == c;
}

static bool at_end_of_line(const struct envfile_reader *r)
{
	return r->p == r->end || *r->p == '\n';
}

static void skip_blanks(struct envfile_reader *r)
{
	while (at(r, ' ') || at(r, '\t'))
		r->p++;
}

static void envfile_next_line(struct envfile_reader *r)
{
	if (r->p < r->end)
		r->p++;
	r->bol = r->p;
	r->line++;
}

/* Behind a value, or on a line of its own: blanks and a comment. */
static int read_rest(struct envfile_reader *r, struct err *e)
{
	skip_blanks(r);
	if (at(r, '#'))
		while (!at_end_of_line(r))
			r->p++;
	return at_end_of_line(r) ? 0 : envfile_fail(r, e, "more text behind the closing quote");
}

static int envfile_read_name(struct envfile_reader *r, const char **ret, struct err *e)
{
	const char *from = r->p;

	while (!at_end_of_line(r) && *r->p != '=' && *r->p != ' ' && *r->p != '\t')
		r->p++;
	*ret = arena_strndup(r->arena, from, (size_t)(r->p - from));
	if (!*ret)
		return err_nomem(e);
	skip_blanks(r);
	if (!at(r, '=')) {
		(void)envfile_fail(r, e, "no '=' in this line");
		return err_hint(e, "lines are NAME=value, comments begin with '#'");
	}
	if (!env_name_valid(*ret)) {
		r->p = from;
		return err_set(e, ERR_CONFIG, EINVAL,
			       "%.128s:%d:%d: '%.60s' is not a variable name", r->name, r->line,
			       (int)(from - r->bol) + 1, *ret);
	}
	r->p++;
	return 0;
}

/* Up to the end of the line, or to a '#' behind a blank; blanks around it do not count. */
static int read_plain(struct envfile_reader *r, bool ours, const char **ret, struct err *e)
{
	const char *from = r->p, *stop;

	while (!at_end_of_line(r) && !(*r->p == '#' && (r->p[-1] == ' ' || r->p[-1] == '\t'))) {
		if (ours && strchr("$`\\\"'", *r->p)) {
			(void)envfile_fail(r, e,
					   "a character that shells and other readers take apart");
			return err_hint(e, "nothing is expanded here: write the value itself");
		}
		r->p++;
	}
	for (stop = r->p; stop > from && (stop[-1] == ' ' || stop[-1] == '\t'); stop--)
		;
	*ret = arena_strndup(r->arena, from, (size_t)(stop - from));
	if (!*ret)
		return err_nomem(e);
	return read_rest(r, e);
}

/* The character that a backslash in double quotes stands before, or 0: the backslash is itself. */
static char escaped(char c)
{
	return c == 'n' ? '\n' : c && strchr("\\\"$`", c) ? c : '\0';
}

/* A closing quote that was forgotten must not swallow a setting of ours. */
static bool swallows(const char *value)
{
	for (const char *p = strchr(value, '\n'); p; p = strchr(p + 1, '\n')) {
		const char *q = p + 1;

		q += strspn(q, " \t");
		q += str_starts(q, "export") ? strlen("export") : 0;
		q += strspn(q, " \t");
		if (str_starts_nocase(q, OURS))
			return true;
	}
	return false;
}

/* The quote that ends the value begun at p, or NULL. */
static const char *closing(const struct envfile_reader *r, const char *p, char quote)
{
	for (; p < r->end && *p != quote; p++)
		if (quote == '"' && *p == '\\' && p + 1 < r->end && escaped(p[1]))
			p++;
	return p < r->end ? p : NULL;
}

/* Copies one character, or the two of an escape, and keeps count of lines. */
static char take_quoted(struct envfile_reader *r, char quote)
{
	char c = quote == '"' && at(r, '\\') && r->p + 1 < r->end ? escaped(r->p[1]) : '\0';

	if (c)
		r->p += 2;
	else
		c = *r->p++;
	if (r->p[-1] == '\n') {
		r->line++;
		r->bol = r->p;
	}
	return c;
}

static int read_quoted(struct envfile_reader *r, bool ours, const char **ret, struct err *e)
{
	const struct envfile_reader opened = *r;
	char quote = *r->p++, *out;
	const char *stop = closing(r, r->p, quote);
	size_t n = 0;

	if (!stop)
		return envfile_fail(&opened, e, "a quote that is not closed");
	out = arena_alloc(r->arena, (size_t)(stop - r->p) + 1);
	if (!out)
		return err_nomem(e);
	while (r->p < stop) {
		if (ours && (at(r, '\n') || (quote == '"' && (at(r, '$') || at(r, '`')))))
			return envfile_fail(
				r, e, "a value of one line without '$' and backticks is wanted");
		out[n++] = take_quoted(r, quote);
	}
	r->p++;
	if (swallows(out))
		return envfile_fail(&opened, e,
				    "a quote that runs over a line with a " OURS " setting");
	*ret = out;
	return read_rest(r, e);
}

static int read_value(struct envfile_reader *r, bool ours, const char **ret, struct err *e)
{
	bool quoted;

	skip_blanks(r);
	quoted = at(r, '"') || at(r, '\'');
	return quoted ? read_quoted(r, ours, ret, e) : read_plain(r, ours, ret, e);
}

static int envfile_add(struct envfile_reader *r, const struct env_line *l, struct err *e)
{
	struct env_line *slot;

	for (size_t i = 0; i < r->n; i++)
		if (str_eq(r->v[i].name, l->name))
			return err_set(e, ERR_CONFIG, EEXIST,
				       "%.128s:%d: '%.60s' appears twice, first in line %d",
				       r->name, l->line, l->name, r->v[i].line);
	if (r->n == LINES_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "%.128s:%d: more than %d variables", r->name,
			       l->line, LINES_MAX);
	slot = ARENA_PUSH(r->arena, r->v, r->n);
	if (!slot)
		return err_nomem(e);
	*slot = *l;
	return 0;
}

static int read_line(struct envfile_reader *r, struct err *e)
{
	struct env_line l = { .line = r->line };
	const char *word;

	skip_blanks(r);
	if (at_end_of_line(r) || at(r, '#'))
		return read_rest(r, e);
	word = r->p;
	if ((size_t)(r->end - word) > 7 && strncmp(word, "export", 6) == 0 &&
	    (word[6] == ' ' || word[6] == '\t')) {
		r->p += 6;
		skip_blanks(r);
	}
	if (envfile_read_name(r, &l.name, e) < 0 ||
	    read_value(r, str_starts_nocase(l.name, OURS), &l.value, e) < 0)
		return -e->code;
	return envfile_add(r, &l, e);
}

/* Refused wherever they stand: a carriage return would end up in the last value of a line. */
static int check_bytes(struct envfile_reader *r, struct err *e)
{
	for (; r->p < r->end; r->p++) {
		if (*r->p == '\0')
			return envfile_fail(r, e, "a NUL character");
		if (*r->p == '\r') {
			(void)envfile_fail(r, e, "a carriage return");
			return err_hint(e, "save the file with Unix line ends");
		}
		if (*r->p == '\n') {
			r->line++;
			r->bol = r->p + 1;
		}
	}
	return 0;
}

int env_file_parse(struct arena *a, const struct source *src, const char *data, size_t n,
		   struct env_line **ret, size_t *count, struct err *e)
{
	struct envfile_reader r = {
		.arena = a, .name = src->name, .p = data, .bol = data, .line = 1
	};

	r.end = n ? data + n : data;
	if (n > FILE_MAX)
		return err_set(e, ERR_CONFIG, EFBIG, "%.128s: larger than 1 MiB", src->name);
	if (check_bytes(&r, e) < 0)
		return -e->code;
	r.p = r.bol = data;
	r.line = 1;
	while (r.p < r.end) {
		if (read_line(&r, e) < 0)
			return -e->code;
		envfile_next_line(&r);
	}
	*ret = r.v;
	*count = r.n;
	return 0;
}

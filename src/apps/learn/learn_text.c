/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/learn/learn_text.h"

#include <string.h>

#include "base/text/str.h"

#define SHOWN 200 /* bytes of a text in a remark */

int learn_settle(struct learn_text *t, struct err *e)
{
	return learn_hosts(t, e) < 0 ? -e->code : learn_files(t, e);
}

/* ---- the file ---- */

/* In a remark nothing ends the line, and nothing looks like something else. */
static void put_plain(struct buf *out, const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n && i < SHOWN; i++)
		buf_putc(out, text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
	if (n > SHOWN)
		buf_puts(out, "...");
}

void learn_reason(struct buf *out, const char *what, const struct learned_line *l)
{
	if (!l->count)
		buf_puts(out, "not counted in this run");
	else
		buf_printf(out, "%llu %s%s, the first after %llu.%llu s",
			   (unsigned long long)l->count, what, l->count == 1 ? "" : "s",
			   (unsigned long long)(l->first_us / 1000000),
			   (unsigned long long)(l->first_us / 100000 % 10));
}

static void learn_put_list(struct buf *out, const char *key, const char *indent, const char *what,
			   const struct learned_list *l)
{
	if (!l->n)
		return;
	buf_printf(out, "%s%s:\n", indent, key);
	for (size_t i = 0; i < l->n; i++) {
		buf_puts(out, indent);
		if (what) {
			buf_puts(out, "  # ");
			learn_reason(out, what, &l->v[i]);
			buf_printf(out, "\n%s", indent);
		}
		buf_puts(out, "  - ");
		json_quote(out, l->v[i].text, strlen(l->v[i].text));
		buf_putc(out, '\n');
	}
}

static void put_begin(const struct learn_text *t, struct buf *out)
{
	char day[64] = "";
	struct tm tm;

	if (gmtime_r(&t->at, &tm))
		(void)strftime(day, sizeof(day), "%F %H:%M UTC", &tm);
	buf_printf(out, "# What a run of brig learn asked for, %s:\n#   ", day);
	/* Its further words may hold what is nobody else's to read. */
	put_plain(out, t->run->command.argv ? t->run->command.argv[0] : "");
	buf_puts(
		out,
		"\n# The command chose every name below. Read them; \"brig allow\" then trusts the "
		"file as it stands.\nbrig: 1\n");
}

static void put_network(const struct learn_text *t, struct buf *out)
{
	if (!t->allow.n) {
		buf_puts(out, "\n# No host answered.\nnetwork: none\n");
		return;
	}
	buf_puts(out, "\nnetwork: proxy\negress:\n");
	learn_put_list(out, "allow", "  ", "request", &t->allow);
	if (t->fields.n)
		buf_puts(out,
			 "  # Of requests to these hosts; they pass where a rule names methods or "
			 "paths.\n");
	learn_put_list(out, "fields", "  ", NULL, &t->fields);
}

/* Their names, which were on the line: never their values. */
static void put_credentials(const struct spec *s, struct buf *out)
{
	if (s->origin[FIELD_CREDENTIAL] != ORIGIN_FLAG || !s->use_credentials.n)
		return;
	buf_puts(out, "\nuse_credentials:\n");
	for (size_t i = 0; i < s->use_credentials.n; i++) {
		buf_puts(out, "  - ");
		json_quote(out, s->use_credentials.v[i], strlen(s->use_credentials.v[i]));
		buf_putc(out, '\n');
	}
}

/* What the line said and a run under this file has not; keys are brig's own words. */
static void put_besides(const struct spec *s, struct buf *out)
{
	static const enum field_id held[] = { FIELD_NETWORK,       FIELD_EGRESS_ALLOW,
					      FIELD_EGRESS_GROUPS, FIELD_EGRESS_FIELDS,
					      FIELD_READ,          FIELD_WRITE,
					      FIELD_MOUNT,         FIELD_CREDENTIAL,
					      FIELD_WORKDIR };
	const char *before = "\n# That run was also given, and this file does not have it: ";

	for (int i = 0; i < FIELD_COUNT; i++) {
		bool has = !fields[i].key || s->origin[i] != ORIGIN_FLAG;

		for (size_t k = 0; k < ARRAY_LEN(held) && !has; k++)
			has = held[k] == (enum field_id)i;
		if (has)
			continue;
		buf_printf(out, "%s%s", before, fields[i].key);
		before = ", ";
	}
	if (before[0] == ',')
		buf_puts(out, ".\n");
}

static void put_told(struct buf *out, const char *head, const struct learned_list *l)
{
	if (l->n)
		buf_printf(out, "\n# %s\n", head);
	for (size_t i = 0; i < l->n && i < LEARN_TOLD; i++) {
		buf_puts(out, "#   ");
		put_plain(out, l->v[i].text);
		buf_putc(out, '\n');
	}
	if (l->n > LEARN_TOLD)
		buf_printf(out, "#   and %zu more\n", l->n - LEARN_TOLD);
}

static void put_refused(const struct outcome *o, struct buf *out)
{
	uint64_t more = 0;

	if (!o || !o->denial_count)
		return;
	buf_puts(out, "\n# Refused while it ran, and not allowed by this file:\n");
	for (size_t i = 0; i < o->denial_count; i++) {
		const struct denial *d = &o->denials[i];

		if (i >= LEARN_TOLD) {
			more++;
			continue;
		}
		buf_puts(out, "#   ");
		put_plain(out, d->kind);
		buf_putc(out, ' ');
		put_plain(out, d->target);
		buf_puts(out, ": ");
		put_plain(out, d->reason);
		buf_putc(out, '\n');
	}
	if (more)
		buf_printf(out, "#   and %llu more\n", (unsigned long long)more);
}

static void put_missing(const struct sightings *s, struct buf *out)
{
	if (s->n_missing)
		buf_puts(out, "\n# Asked for, and not there:\n");
	for (size_t i = 0; i < s->n_missing; i++) {
		buf_puts(out, "#   ");
		put_plain(out, s->missing[i].path);
		buf_putc(out, '\n');
	}
	if (s->more_missing)
		buf_printf(out, "#   and %llu times more\n", (unsigned long long)s->more_missing);
}

static void put_cut(const struct sightings *s, struct buf *out)
{
	if (s->blind)
		buf_printf(out, "\n# Files were not watched: %s.\n", s->blind);
	if (s->more_requests)
		buf_printf(out, "\n# Cut: %llu requests to further hosts are not in this file.\n",
			   (unsigned long long)s->more_requests);
	if (s->more_fields)
		buf_printf(out, "\n# Cut: %llu further fields of requests are not in this file.\n",
			   (unsigned long long)s->more_fields);
	if (s->more_files)
		buf_puts(
			out,
			"\n# There were too many files to list: the granted places stand whole.\n");
	if (s->unread && s->n_places && !s->blind)
		buf_printf(
			out,
			"\n# %llu time%s brig could not see which file was opened. If a run under "
			"this file\n# misses one that the line of this run had shown, add it.\n",
			(unsigned long long)s->unread, s->unread == 1 ? "" : "s");
}

void learn_write(const struct learn_text *t, struct buf *out)
{
	put_begin(t, out);
	put_network(t, out);
	put_credentials(t->run, out);
	if (t->read.n || t->write.n || t->mounts.n)
		buf_puts(out, "\n# Of what the run was shown beside its workspace.\n");
	learn_put_list(out, "read", "", "time", &t->read);
	learn_put_list(out, "write", "", "time", &t->write);
	learn_put_list(out, "mounts", "", "time", &t->mounts);
	put_besides(t->run, out);
	put_refused(t->outcome, out);
	put_told(out, "Asked for, and no rule can name it:", &t->odd);
	put_missing(t->seen, out);
	put_cut(t->seen, out);
}

/* ---- the same for programs ---- */

static void json_list(struct json *j, const char *key, const struct learned_list *l)
{
	json_karray(j, key);
	for (size_t i = 0; i < l->n; i++) {
		json_object(j);
		json_kstr(j, "text", l->v[i].text);
		json_ku64(j, "count", l->v[i].count);
		json_ku64(j, "first_ms", l->v[i].first_us / 1000);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_told(struct json *j, const struct learn_text *t)
{
	const struct outcome *o = t->outcome;

	json_karray(j, "refused");
	for (size_t i = 0; o && i < o->denial_count; i++) {
		json_object(j);
		json_kstr(j, "kind", o->denials[i].kind);
		json_kstr(j, "target", o->denials[i].target);
		json_kstr(j, "reason", o->denials[i].reason);
		json_ku64(j, "count", o->denials[i].count);
		json_object_end(j);
	}
	json_array_end(j);
	json_karray(j, "missing");
	for (size_t i = 0; i < t->seen->n_missing; i++)
		json_str(j, t->seen->missing[i].path);
	json_array_end(j);
}

void learn_json(const struct learn_text *t, const char *text, struct json *j)
{
	const struct sightings *s = t->seen;

	json_object(j);
	json_list(j, "allow", &t->allow);
	json_list(j, "fields", &t->fields);
	json_list(j, "read", &t->read);
	json_list(j, "write", &t->write);
	json_list(j, "mounts", &t->mounts);
	json_list(j, "unnamed", &t->odd);
	json_told(j, t);
	json_kstr(j, "blind", s->blind);
	json_ku64(j, "opens", s->opens);
	json_ku64(j, "unread", s->unread);
	json_ku64(j, "more_requests", s->more_requests);
	json_ku64(j, "more_fields", s->more_fields);
	json_ku64(j, "more_files", s->more_files);
	json_ku64(j, "more_missing", s->more_missing);
	json_kstr(j, "file", text);
	json_object_end(j);
}

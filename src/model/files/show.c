/* SPDX-License-Identifier: Apache-2.0 */
/* model/files/show.c - a spec for reading: as a brig.yaml, and as JSON with the same keys. */
#include <stdio.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/files/config.h"
#include "model/files/show.h"

/* --- what both forms share --- */

static const void *value(const struct spec *s, const struct field *f)
{
	return (const char *)s + f->offset;
}

/* How long the group of a key is, below the one that its first `from` bytes name: "limits" of
 * "limits.memory", "egress.rate" of "egress.rate.total"; 0 when it stands directly there. */
static size_t group_len(const char *key, size_t from)
{
	const char *dot = strchr(key + from, '.');

	return dot ? (size_t)(dot - key) : 0;
}

/* A group is written where its first key stands. */
static bool first_of_group(size_t at, size_t len)
{
	for (size_t i = 0; i < at; i++)
		if (fields[i].key && strncmp(fields[i].key, fields[at].key, len + 1) == 0)
			return false;
	return true;
}

/* What no backend honours, a long-lived sandbox alone, is shown only where somebody asks for it:
 * the text can be given back to brig. */
static bool unheard(const struct spec *s, enum field_id id)
{
	return !(fields[id].honoured & ~(unsigned)ON_LASTING) && !spec_asks(s, id);
}

typedef void field_fn(void *arg, const struct spec *s, enum field_id id, const char *name);

struct walk {
	field_fn *field;
	void (*open)(void *arg, const char *name, size_t n);
	void (*close)(void *arg);
	void *arg;
};

/* The keys of the table from `first` on that begin with the first `from` bytes of `group`. */
static void walk_fields(const struct spec *s, size_t first, const char *group, size_t from,
			const struct walk *w)
{
	for (size_t i = first; i < FIELD_COUNT; i++) {
		const char *key = fields[i].key;
		size_t n;

		if (!key || strncmp(key, group, from) != 0 || unheard(s, (enum field_id)i))
			continue;
		n = group_len(key, from);
		if (!n) {
			w->field(w->arg, s, (enum field_id)i, key + from);
		} else if (first_of_group(i, n)) {
			w->open(w->arg, key + from, n - from);
			walk_fields(s, i, key, n + 1, w);
			w->close(w->arg);
		}
	}
}

/* --- JSON --- */

static void json_field(void *arg, const struct spec *s, enum field_id id, const char *name)
{
	json_key(arg, name);
	if (id == FIELD_WORKDIR && (s->private_workspace || s->no_workspace))
		json_null(arg);
	else
		show_value(arg, s, id, false);
}

static void json_open(void *arg, const char *name, size_t n)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "%.*s", (int)n, name);
	json_kobject(arg, key);
}

static void json_close(void *arg)
{
	json_object_end(arg);
}

/* Of maps and lists that all layers add to: the nth entry's name and who wrote it. */
static bool nth_entry(const struct spec *s, enum field_id id, size_t n, const char **name,
		      enum origin *by)
{
	const struct field *f = &fields[id];
	const struct envlist *map = value(s, f);

	if (id == FIELD_EGRESS_DENY) {
		if (n >= s->egress.deny.n)
			return false;
		*name = s->egress.deny.v[n];
		*by = s->egress.deny_by.v[n];
		return true;
	}
	if ((f->type != FIELD_T_ENV && f->type != FIELD_T_LABELS && f->type != FIELD_T_PINS &&
	     f->type != FIELD_T_LEAKS) ||
	    n >= map->n)
		return false;
	*name = map->v[n].name;
	*by = map->v[n].by;
	return true;
}

static void json_entries(struct json *j, const struct spec *s, enum field_id id)
{
	const char *name;
	enum origin by;

	if (!nth_entry(s, id, 0, &name, &by))
		return;
	json_key(j, "entries");
	if (id == FIELD_EGRESS_DENY) /* in the order of the list, where a rule may stand twice */
		json_array(j);
	else
		json_object(j);
	for (size_t i = 0; nth_entry(s, id, i, &name, &by); i++)
		if (id == FIELD_EGRESS_DENY)
			json_str(j, origin_name(by));
		else
			json_kstr(j, name, origin_name(by));
	if (id == FIELD_EGRESS_DENY)
		json_array_end(j);
	else
		json_object_end(j);
}

static void json_origins(struct json *j, const struct spec *s)
{
	json_kobject(j, "origin");
	for (int id = 0; id < FIELD_COUNT; id++) {
		if (!fields[id].key)
			continue;
		json_kobject(j, fields[id].key);
		json_kstr(j, "by", origin_name(s->origin[id]));
		json_kstr(j, "where", s->where[id]);
		json_entries(j, s, (enum field_id)id);
		json_object_end(j);
	}
	json_object_end(j);
}

void config_show_json(const struct spec *s, bool origin, struct json *j)
{
	struct walk w = { .field = json_field, .open = json_open, .close = json_close, .arg = j };

	json_object(j);
	json_kstr(j, "dialect", dialect_name((enum dialect)s->dialect_used));
	walk_fields(s, 0, "", 0, &w);
	if (origin)
		json_origins(j, s);
	json_object_end(j);
}

/* --- text: JSON's own forms are YAML, too --- */

struct text {
	struct buf *out;
	bool origin;
	int indent;
};

static void number_text(const struct field *f, uint64_t v, char *out, size_t n)
{
	if (show_unlimited(f, v))
		(void)snprintf(out, n, "%s", f->none ? "none" : "null");
	else if (f->all && v == FIELD_ALL)
		(void)snprintf(out, n, "all");
	else
		field_number_text(f, v, out, n);
}

/* Ports as strings, which is how they are written; a zero retry count and the like are left out. */
static void ports_text(struct buf *b, const struct portlist *l)
{
	buf_putc(b, '[');
	for (size_t i = 0; i < l->n; i++) {
		buf_puts(b, i ? ", \"" : "\"");
		if (l->v[i].host)
			buf_printf(b, "%u:", l->v[i].host);
		buf_printf(b, "%u/%s\"", l->v[i].container, l->v[i].protocol);
	}
	buf_putc(b, ']');
}

static bool plain_word(const char *s)
{
	static const char *const words[] = { "true", "false", "null", "yes", "no",
					     "on",   "off",   "y",    "n",   NULL };

	if (!*s || strspn(s, "abcdefghijklmnopqrstuvwxyz_/.") != strlen(s))
		return false;
	for (size_t i = 0; words[i]; i++)
		if (str_eq(s, words[i]))
			return false;
	return true;
}

static void value_text(struct buf *b, const struct spec *s, enum field_id id)
{
	const struct field *f = &fields[id];
	const void *v = value(s, f);
	char number[32];
	struct json j;

	if (field_is_number(f)) {
		number_text(f, *(const uint64_t *)v, number, sizeof(number));
		buf_puts(b, number);
	} else if (f->type == FIELD_T_WORD) {
		buf_puts(b, f->words[*(const int *)v]);
	} else if (f->type == FIELD_T_PORTS) {
		ports_text(b, v);
	} else if (id == FIELD_WORKDIR && (s->private_workspace || s->no_workspace)) {
		buf_puts(b, "null");
	} else if (f->type == FIELD_T_STRING && *(const char *const *)v &&
		   plain_word(*(const char *const *)v)) {
		buf_puts(b, *(const char *const *)v);
	} else {
		json_init(&j, b, false);
		show_value(&j, s, id, true);
	}
}

/* Entries that somebody else wrote than the one named for the whole. */
static void other_writers(struct buf *b, const struct spec *s, enum field_id id)
{
	const char *name;
	enum origin by;

	for (size_t i = 0; nth_entry(s, id, i, &name, &by); i++)
		if (by != s->origin[id])
			buf_printf(b, "; %s: %s", name, origin_name(by));
}

static void text_field(void *arg, const struct spec *s, enum field_id id, const char *name)
{
	struct text *t = arg;

	buf_printf(t->out, "%*s%s: ", t->indent, "", name);
	value_text(t->out, s, id);
	if (t->origin)
		buf_printf(t->out, "  # %s%s%s", origin_name(s->origin[id]),
			   s->where[id] ? " " : "", s->where[id] ? s->where[id] : "");
	if (t->origin)
		other_writers(t->out, s, id);
	buf_putc(t->out, '\n');
}

static void text_open(void *arg, const char *name, size_t n)
{
	struct text *t = arg;

	buf_printf(t->out, "%*s%.*s:\n", t->indent, "", (int)n, name);
	t->indent += 2;
}

static void text_close(void *arg)
{
	((struct text *)arg)->indent -= 2;
}

/* --- as JSON that brig.yaml reads back --- */

static void write_ports(struct json *j, const struct portlist *l)
{
	char text[40];

	json_array(j);
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].host)
			(void)snprintf(text, sizeof(text), "%u:%u/%s", l->v[i].host,
				       l->v[i].container, l->v[i].protocol);
		else
			(void)snprintf(text, sizeof(text), "%u/%s", l->v[i].container,
				       l->v[i].protocol);
		json_str(j, text);
	}
	json_array_end(j);
}

/* An emptied list is a word, too: nothing weaker counts then. */
static bool show_written(const struct spec *s, enum field_id id)
{
	bool workspace = id == FIELD_WORKDIR && s->inside;

	return fields[id].key && (workspace || s->origin[id] != ORIGIN_DEFAULT);
}

static void write_field(void *arg, const struct spec *s, enum field_id id, const char *name)
{
	const struct field *f = &fields[id];
	const void *v = value(s, f);
	char number[32];

	if (!show_written(s, id))
		return;
	json_key(arg, name);
	if (field_is_number(f)) {
		number_text(f, *(const uint64_t *)v, number, sizeof(number));
		if (str_eq(number, "null"))
			json_null(arg);
		else
			json_str(arg, number);
	} else if (f->type == FIELD_T_PORTS) {
		write_ports(arg, v);
	} else if (id == FIELD_WORKDIR && (s->private_workspace || s->no_workspace)) {
		json_null(arg);
	} else {
		(id == FIELD_COMPANIONS ? show_whole : show_value)(arg, s, id, true);
	}
}

void config_write_json(const struct spec *s, struct json *j)
{
	struct walk w = { .field = write_field, .open = json_open, .close = json_close, .arg = j };

	json_object(j);
	json_kstr(j, "brig", "1");
	walk_fields(s, 0, "", 0, &w);
	json_object_end(j);
}

void config_show(const struct spec *s, bool origin, struct buf *out)
{
	struct text t = { .out = out, .origin = origin };
	struct walk w = { .field = text_field, .open = text_open, .close = text_close, .arg = &t };

	buf_puts(out, "brig: 1");
	if (s->dialect_used != DIALECT_BRIG)
		buf_printf(out, "  # read from the dialect '%s'",
			   dialect_name((enum dialect)s->dialect_used));
	buf_putc(out, '\n');
	walk_fields(s, 0, "", 0, &w);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base/bytes/yaml.c - libyaml's events, put into a tree while they pass.
 *
 * The stack of open lists and maps is an array of fixed depth: libyaml's own work grows with the
 * square of the depth, so it is stopped at the first event that is too deep, not afterwards. */
#include "base/bytes/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/text/str.h"

#define DEPTH_MAX 64
#define SIZE_MAX_BYTES ((size_t)1 << 20)
#define NODES_MAX 65536
#define KEYS_MAX 4096 /* of one map: each new one is compared with all before it */

struct level {
	struct node *open, *last; /* the list or map, and its youngest child */
};

struct yaml_reader {
	struct arena *arena;
	const char *name;
	struct level stack[DEPTH_MAX];
	size_t depth, nodes;
	struct node *root;
	struct node *keyed; /* a member whose key has been read and whose value has not */
	bool started;       /* a first document was seen */
};

static int at_mark(const struct yaml_reader *r, const yaml_mark_t *m, struct err *e,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static int at_mark(const struct yaml_reader *r, const yaml_mark_t *m, struct err *e,
		   const char *fmt, ...)
{
	char text[192];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, ERR_CONFIG, EINVAL, "%.128s:%zu:%zu: %s", r->name, m->line + 1,
		       m->column + 1, text);
}

__attribute__((format(printf, 5, 0))) static int node_errorv(const char *name, int line, int column,
							     struct err *e, const char *fmt,
							     va_list ap)
{
	char text[sizeof(e->what)];
	size_t n;

	(void)vsnprintf(text, sizeof(text), fmt, ap);
	(void)err_set(e, ERR_CONFIG, EINVAL, "%.128s:%d:%d", name, line, column);
	n = strlen(e->what);
	(void)snprintf(e->what + n, sizeof(e->what) - n, ": %s", text);
	return -e->code;
}

int node_error(const char *name, const struct node *n, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = node_errorv(name, n->line, n->column, e, fmt, ap);
	va_end(ap);
	return r;
}

int node_key_error(const char *name, const struct node *n, struct err *e, const char *fmt, ...)
{
	bool keyed = n->key_line > 0;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = node_errorv(name, keyed ? n->key_line : n->line, keyed ? n->key_column : n->column, e,
			fmt, ap);
	va_end(ap);
	return r;
}

const char *node_kind_name(enum node_kind k)
{
	static const char *const names[] = { "nothing", "a value", "a list", "a map" };

	return names[k];
}

bool node_same(const struct node *a, const struct node *b, const struct node *but, node_same_fn *fn,
	       const void *arg)
{
	const struct node *x = a->first, *y = b->first;

	if (a == but)
		return fn(arg, a, b);
	if (a->kind != b->kind || !a->key != !b->key || (a->key && !str_eq(a->key, b->key)))
		return false;
	if (a->kind == NODE_SCALAR)
		return a->quoted == b->quoted && str_eq(a->text, b->text);
	for (; x && y; x = x->next, y = y->next)
		if (!node_same(x, y, but, fn, arg))
			return false;
	return !x && !y;
}

const struct node *node_get(const struct node *map, const char *key)
{
	const struct node *n = map && map->kind == NODE_MAP ? map->first : NULL;

	while (n && !str_eq(n->key, key))
		n = n->next;
	return n;
}

static bool yaml_among(const char *s, const char *const *words)
{
	for (; *words; words++)
		if (str_eq(s, *words))
			return true;
	return false;
}

int node_bool(const char *name, const struct node *n, bool *ret, struct err *e)
{
	static const char *const yes[] = { "true", "True", "TRUE", NULL };
	static const char *const no[] = { "false", "False", "FALSE", NULL };

	if (n->kind != NODE_SCALAR)
		return node_error(name, n, e, "%s%sexpected true or false, not %s",
				  n->key ? n->key : "", n->key ? ": " : "",
				  node_kind_name(n->kind));
	if (n->quoted || (!yaml_among(n->text, yes) && !yaml_among(n->text, no))) {
		(void)node_error(name, n, e, "%s%s%s'%.60s' is neither true nor false",
				 n->key ? n->key : "", n->key ? ": " : "",
				 n->quoted ? "the text " : "", n->text);
		return err_hint(e, n->quoted ? "write it without quotes" : "write true or false");
	}
	*ret = yaml_among(n->text, yes);
	return 0;
}

/* --- building the tree --- */

static bool bare_boolean(const char *s)
{
	static const char *const words[] = { "yes", "no", "on", "off", "y", "n" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(s, words[i]) == 0)
			return true;
	return false;
}

static bool is_null(const yaml_event_t *ev)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL", NULL };

	return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       yaml_among((const char *)ev->data.scalar.value, words);
}

static int check_scalar(const struct yaml_reader *r, const yaml_event_t *ev, struct err *e)
{
	const char *text = (const char *)ev->data.scalar.value;
	bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	if (ev->data.scalar.anchor)
		return at_mark(r, &ev->start_mark, e, "anchors ('&%.40s') are not accepted",
			       (const char *)ev->data.scalar.anchor);
	if (ev->data.scalar.tag)
		return at_mark(r, &ev->start_mark, e, "tags ('%.40s') are not accepted",
			       (const char *)ev->data.scalar.tag);
	if (strlen(text) != ev->data.scalar.length)
		return at_mark(r, &ev->start_mark, e, "a NUL character in a text");
	if (plain && bare_boolean(text)) {
		(void)at_mark(r, &ev->start_mark, e,
			      "bare '%s' means true or false to some readers and text to others",
			      text);
		return err_hint(e, "write true or false, or \"%s\" in quotes for the word", text);
	}
	return 0;
}

static struct node *new_node(struct yaml_reader *r, const yaml_mark_t *m, enum node_kind kind,
			     struct err *e)
{
	struct node *n;

	if (++r->nodes > NODES_MAX) {
		(void)at_mark(r, m, e, "more than %d values", NODES_MAX);
		return NULL;
	}
	n = arena_alloc(r->arena, sizeof(*n));
	if (!n) {
		(void)err_nomem(e);
		return NULL;
	}
	n->kind = kind;
	n->line = (int)m->line + 1;
	n->column = (int)m->column + 1;
	return n;
}

static void link_child(struct yaml_reader *r, struct node *n)
{
	struct level *l = &r->stack[r->depth - 1];

	if (l->last)
		l->last->next = n;
	else
		l->open->first = n;
	l->last = n;
	l->open->count++;
}

static bool wants_key(const struct yaml_reader *r)
{
	const struct node *open = r->depth ? r->stack[r->depth - 1].open : NULL;

	return open && open->kind == NODE_MAP && !r->keyed;
}

/* A key opens its member; the value that follows fills it in. */
static int take_key(struct yaml_reader *r, const yaml_event_t *ev, struct err *e)
{
	const char *key = (const char *)ev->data.scalar.value;
	const struct node *map = r->stack[r->depth - 1].open, *twin;
	struct node *n;

	if (check_scalar(r, ev, e) < 0)
		return -e->code;
	if (is_null(ev) || !*key || str_has_control(key))
		return at_mark(r, &ev->start_mark, e, "a key that is not plain text");
	if (str_eq(key, "<<"))
		return at_mark(r, &ev->start_mark, e, "merge keys ('<<') are not accepted");
	twin = node_get(map, key);
	if (twin)
		return at_mark(r, &ev->start_mark, e, "key '%.60s' appears twice, first in line %d",
			       key, twin->key_line);
	if (map->count >= KEYS_MAX)
		return at_mark(r, &ev->start_mark, e, "more than %d keys in one map", KEYS_MAX);
	n = new_node(r, &ev->start_mark, NODE_NULL, e);
	if (!n)
		return -e->code;
	n->key = arena_strndup(r->arena, key, ev->data.scalar.length);
	n->key_line = n->line;
	n->key_column = n->column;
	if (!n->key)
		return err_nomem(e);
	link_child(r, n);
	r->keyed = n;
	return 0;
}

/* Where a value goes: the member whose key came before it, a new element, or the root. */
static struct node *yaml_take_value(struct yaml_reader *r, const yaml_event_t *ev,
				    enum node_kind kind, struct err *e)
{
	struct node *n = r->keyed;

	if (n) {
		n->kind = kind;
		n->line = (int)ev->start_mark.line + 1;
		n->column = (int)ev->start_mark.column + 1;
		r->keyed = NULL;
		return n;
	}
	n = new_node(r, &ev->start_mark, kind, e);
	if (!n)
		return NULL;
	if (r->depth)
		link_child(r, n);
	else
		r->root = n;
	return n;
}

static int on_scalar(struct yaml_reader *r, const yaml_event_t *ev, struct err *e)
{
	struct node *n;

	if (wants_key(r))
		return take_key(r, ev, e);
	if (check_scalar(r, ev, e) < 0)
		return -e->code;
	n = yaml_take_value(r, ev, is_null(ev) ? NODE_NULL : NODE_SCALAR, e);
	if (!n)
		return -e->code;
	if (n->kind == NODE_NULL)
		return 0;
	n->quoted = ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	n->text = arena_strndup(r->arena, (const char *)ev->data.scalar.value,
				ev->data.scalar.length);
	return n->text ? 0 : err_nomem(e);
}

static int on_open(struct yaml_reader *r, const yaml_event_t *ev, struct err *e)
{
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	const yaml_char_t *anchor = map ? ev->data.mapping_start.anchor
					: ev->data.sequence_start.anchor,
			  *tag = map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag;
	struct node *n;

	if (anchor)
		return at_mark(r, &ev->start_mark, e, "anchors ('&%.40s') are not accepted",
			       (const char *)anchor);
	if (tag)
		return at_mark(r, &ev->start_mark, e, "tags ('%.40s') are not accepted",
			       (const char *)tag);
	if (wants_key(r))
		return at_mark(r, &ev->start_mark, e, "a key that is not plain text");
	if (r->depth == DEPTH_MAX)
		return at_mark(r, &ev->start_mark, e, "more than %d levels", DEPTH_MAX);
	n = yaml_take_value(r, ev, map ? NODE_MAP : NODE_LIST, e);
	if (!n)
		return -e->code;
	r->stack[r->depth++] = (struct level){ .open = n };
	return 0;
}

static int on_document(struct yaml_reader *r, const yaml_event_t *ev, struct err *e)
{
	if (r->started)
		return at_mark(r, &ev->start_mark, e, "more than one document");
	if (ev->data.document_start.version_directive ||
	    ev->data.document_start.tag_directives.start !=
		    ev->data.document_start.tag_directives.end)
		return at_mark(r, &ev->start_mark, e, "directives ('%%') are not accepted");
	r->started = true;
	return 0;
}

static int yaml_on_event(struct yaml_reader *r, const yaml_event_t *ev, struct err *e)
{
	switch (ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		return on_document(r, ev, e);
	case YAML_ALIAS_EVENT:
		return at_mark(r, &ev->start_mark, e, "aliases ('*%.40s') are not accepted",
			       (const char *)ev->data.alias.anchor);
	case YAML_SCALAR_EVENT:
		return on_scalar(r, ev, e);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return on_open(r, ev, e);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		r->depth--;
		return 0;
	default:
		return 0;
	}
}

static int yaml_broken(const struct yaml_reader *r, const yaml_parser_t *p, struct err *e)
{
	if (p->error == YAML_MEMORY_ERROR)
		return err_nomem(e);
	(void)at_mark(r, &p->problem_mark, e, "not YAML: %s",
		      p->problem ? p->problem : "unknown cause");
	return err_hint(e, "see the brackets, quotes and indentation in front of it");
}

static int read_events(struct yaml_reader *r, yaml_parser_t *p, struct err *e)
{
	bool end = false;

	while (!end) {
		yaml_event_t ev;
		int ret;

		if (!yaml_parser_parse(p, &ev))
			return yaml_broken(r, p, e);
		end = ev.type == YAML_STREAM_END_EVENT;
		ret = yaml_on_event(r, &ev, e);
		yaml_event_delete(&ev);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* libyaml would guess at UTF-16 and takes NUL for the end of its buffer: neither gets there. */
static int check_bytes(const struct yaml_reader *r, const char *data, size_t n, struct err *e)
{
	yaml_mark_t m = { 0 };

	if (n > SIZE_MAX_BYTES)
		return err_set(e, ERR_CONFIG, EFBIG, "%.128s: larger than 1 MiB", r->name);
	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_len(data + i, n - i);
		if (!len || !data[i]) {
			(void)at_mark(r, &m, e,
				      len ? "a NUL character" : "bytes that are not UTF-8");
			return err_hint(e, "save it as UTF-8 text");
		}
		m.column = data[i] == '\n' ? 0 : m.column + 1;
		m.line += data[i] == '\n';
	}
	return 0;
}

int yaml_parse(struct arena *a, const char *name, const char *data, size_t n, struct node **ret,
	       struct err *e)
{
	struct yaml_reader r = { .arena = a, .name = name };
	yaml_parser_t p;
	int result;

	if (check_bytes(&r, data, n, e) < 0)
		return -e->code;
	if (!yaml_parser_initialize(&p))
		return err_nomem(e);
	yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p, (const unsigned char *)data, n);
	result = read_events(&r, &p, e);
	yaml_parser_delete(&p);
	if (result < 0)
		return result;
	if (!r.root)
		r.root = new_node(&r, &(yaml_mark_t){ 0 }, NODE_NULL, e);
	if (!r.root)
		return -e->code;
	*ret = r.root;
	return 0;
}

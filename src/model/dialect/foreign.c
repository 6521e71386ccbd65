/* SPDX-License-Identifier: Apache-2.0 */
#include "model/dialect/foreign.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/known/image_name.h"
#include "model/settings/paths.h"
#include "model/settings/spec_lists.h"

int foreign_set(struct spec *s, const struct source *src, enum field_id id, const struct node *n,
		const char *text, struct err *e)
{
	if (spec_set(s, id, text, src->origin, e) < 0)
		return read_failed(src, n, e);
	return read_where(s, src, id, n, e);
}

void foreign_unlimited(struct spec *s, enum field_id id, enum origin by)
{
	uint64_t *at = (void *)((char *)s + fields[id].offset);

	if (by < s->origin[id])
		return;
	*at = 0;
	s->origin[id] = by;
}

static int wants_value(const struct source *src, const struct node *n, struct err *e)
{
	if (n->kind == NODE_SCALAR)
		return 0;
	return node_error(src->name, n, e, "%s%sexpected a value, not %s", n->key ? n->key : "",
			  n->key ? ": " : "", node_kind_name(n->kind));
}

int foreign_whole(const struct source *src, const struct node *n, uint64_t min, uint64_t max,
		  const char *what, uint64_t *ret, struct err *e)
{
	uint64_t v;
	int r;

	if (wants_value(src, n, e) < 0)
		return -e->code;
	r = n->text[0] == '0' && n->text[1] ? -EINVAL : num_count(n->text, &v);
	if (r == -EINVAL)
		return node_error(src->name, n, e, "%s: '%.40s' is not a whole number of %s",
				  n->key ? n->key : "", n->text, what);
	if (r < 0 || v < min || v > max)
		return node_error(src->name, n, e, "%s: '%.40s' is out of bounds (%llu to %llu %s)",
				  n->key ? n->key : "", n->text, (unsigned long long)min,
				  (unsigned long long)max, what);
	*ret = v;
	return 0;
}

int foreign_word(const struct source *src, const struct node *n, const char *const *words,
		 const char **ret, struct err *e)
{
	const char *near;

	if (wants_value(src, n, e) < 0)
		return -e->code;
	for (const char *const *w = words; *w; w++)
		if (strcasecmp(*w, n->text) == 0) {
			*ret = *w;
			return 0;
		}
	near = str_nearest(n->text, words);
	(void)node_error(src->name, n, e, "unknown %s '%.60s'", n->key ? n->key : "word", n->text);
	return near ? err_hint(e, "did you mean '%s'?", near) : -e->code;
}

int foreign_image(const struct source *src, const struct node *n, struct err *e)
{
	if (wants_value(src, n, e) < 0)
		return -e->code;
	if (!image_valid(n->text)) {
		(void)node_error(src->name, n, e, "%s: '%.100s' is not the name of an image",
				 n->key ? n->key : "", n->text);
		return err_hint(e, "such as python:3.11-slim or host:5000/team/name:tag");
	}
	return 0;
}

int foreign_strings(struct spec *s, const struct source *src, const struct node *n,
		    struct strlist *ret, struct err *e)
{
	if (n->kind != NODE_LIST && n->kind != NODE_NULL)
		return node_error(src->name, n, e, "%s: expected a list, not %s",
				  n->key ? n->key : "", node_kind_name(n->kind));
	for (const struct node *c = n->first; c; c = c->next) {
		if (c->kind != NODE_SCALAR || !*c->text)
			return node_error(
				src->name, c, e, "%s: expected a text in the list, not %s",
				n->key ? n->key : "",
				c->kind == NODE_SCALAR ? "an empty one" : node_kind_name(c->kind));
		if (list_add_string(s->arena, ret, c->text, e) < 0)
			return -e->code;
	}
	return 0;
}

/* Refused themselves, and with them whatever holds one of them. */
static const char *const system_roots[] = {
	"/bin", "/boot", "/dev",  "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32",
	"/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys",   "/usr",   "/var",
};
/* Nothing below these is data. */
static const char *const kernel_trees[] = { "/dev", "/proc", "/sys" };
/* What lies below these decides how the host behaves: for reading only. */
static const char *const guarded[] = {
	"/bin",
	"/boot",
	"/etc",
	"/lib",
	"/lib32",
	"/lib64",
	"/libx32",
	"/run",
	"/sbin",
	"/usr",
	"/var/lib/containerd",
	"/var/lib/containers",
	"/var/lib/docker",
	"/var/run",
	"/var/spool/cron",
};
/* Whoever can connect to one of them is root on the host, also through a read-only mount. */
static const char *const engine_sockets[] = { "docker.sock", "podman.sock", "containerd.sock",
					      "crio.sock", "buildkitd.sock" };

static bool under_any(const char *path, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (path_under(path, v[i]))
			return true;
	return false;
}

static const char *forbidden(const char *path, bool writable)
{
	const char *base = strrchr(path, '/') + 1;

	for (size_t i = 0; i < ARRAY_LEN(engine_sockets); i++)
		if (str_eq(base, engine_sockets[i]))
			return "the socket of a container engine";
	for (size_t i = 0; i < ARRAY_LEN(system_roots); i++)
		if (path_under(system_roots[i], path))
			return "a folder of the system";
	if (under_any(path, kernel_trees, ARRAY_LEN(kernel_trees)))
		return "the kernel's own";
	if (writable && under_any(path, guarded, ARRAY_LEN(guarded)))
		return "part of the system and cannot be writable";
	return NULL;
}

int foreign_source(const struct source *src, const struct node *n, const char *path, bool writable,
		   struct err *e)
{
	const char *why = forbidden(path, writable);

	if (!why)
		return 0;
	return err_refuse(
		e, ERR_POLICY, EPERM, "name the folder with the data, outside of the system's own",
		"%.128s:%d:%d: source '%.100s' is %s", src->name, n->line, n->column, path, why);
}

int foreign_note(struct spec *s, struct err *e, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return list_add_string(s->arena, &s->notes, text, e);
}

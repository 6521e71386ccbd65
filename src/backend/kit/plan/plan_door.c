/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/plan/plan_door.c - what a sandbox behind the door finds in its tree: the certificates
 * to trust, which are the host's and, once it exists, the run's own authority. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/kit/plan/java_store.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/files/folder.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define OWN_ROOM 4096                 /* for the run's own authority */
#define ROOTS_MAX ((size_t)768 << 10) /* the root file system has room for it */
#define JAVA_MAX ((size_t)224 << 10)  /* and for this beside it */
#define JDKS "/usr/lib/jvm"

/* Where systems keep the bundle: Debian and most others, Fedora, openSUSE. */
static const char *const bundles[] = { "/etc/ssl/certs/ca-certificates.crt",
				       "/etc/pki/tls/certs/ca-bundle.crt",
				       "/etc/ssl/ca-bundle.pem" };

/* Read where it stays, with room behind it: the sandbox waits for this. */
static const char *read_bundle(struct box_plan *p, const char *path)
{
	struct stat st;
	char *text;

	if (stat(path, &st) < 0 || st.st_size <= 0 || (size_t)st.st_size >= ROOTS_MAX)
		return NULL;
	text = arena_alloc(p->arena, (size_t)st.st_size + 1 + OWN_ROOM);
	return text && fd_read_file(AT_FDCWD, path, text, (size_t)st.st_size + 1) > 0 ? text : NULL;
}

static bool plan_door_is_shown(const struct box_plan *p, const char *path)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_BIND && path_under(path, p->ops[i].dst))
			return true;
	return false;
}

/* Over one of the system's own files, for programs that read no variable. */
static int show_over(struct box_plan *p, const char *path, const char *file, struct err *e)
{
	char real[PATH_MAX];
	struct op *o;

	if (!realpath(path, real) || !plan_door_is_shown(p, real))
		return 0;
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_SHOW && str_eq(p->ops[i].dst, real))
			return 0;
	o = plan_op(p, OP_SHOW, real, e);
	if (!o)
		return -e->code;
	o->src = file;
	return 0;
}

static int plan_door_add_file(struct box_plan *p, const char *path, const char *text, size_t *op,
			      struct err *e)
{
	if (plan_file(p, path, text, e) < 0)
		return -e->code;
	*op = p->op_count - 1;
	p->ops[*op].awaits = true;
	return 0;
}

/* --- Java: its own store, over that of every JDK that is shown --- */

static int begin_java(struct box_plan *p, const char *path, struct err *e)
{
	struct stat st;
	ssize_t n;
	char *old;

	if (p->java || stat(path, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size > JAVA_MAX)
		return 0;
	old = arena_alloc(p->arena, (size_t)st.st_size + 1);
	if (!old)
		return err_nomem(e);
	n = fd_read_file(AT_FDCWD, path, old, (size_t)st.st_size + 1);
	if (n < 0)
		return 0;
	if (java_store_new(p->arena, old, (size_t)n, &p->java, e) < 0)
		return -e->code;
	return plan_door_add_file(p, DOOR_JAVA, "", &p->java_op, e);
}

static int trust_java(struct box_plan *p, const char *path, struct err *e)
{
	if (begin_java(p, path, e) < 0)
		return -e->code;
	return p->java ? show_over(p, path, DOOR_JAVA, e) : 0;
}

static int trust_jdk(struct box_plan *p, const char *name, struct err *e)
{
	static const char *const below[] = { "lib/security/cacerts", "jre/lib/security/cacerts" };
	char path[PATH_MAX];

	for (size_t i = 0; name[0] != '.' && i < ARRAY_LEN(below); i++) {
		(void)snprintf(path, sizeof(path), JDKS "/%s/%s", name, below[i]);
		if (trust_java(p, path, e) < 0)
			return -e->code;
	}
	return 0;
}

static int plan_java(struct box_plan *p, struct err *e)
{
	static const char *const stores[] = { "/etc/ssl/certs/java/cacerts",
					      "/etc/pki/ca-trust/extracted/java/cacerts",
					      "/etc/pki/java/cacerts" };
	CLEANUP(fd) int fd = open(JDKS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *entry;
	struct folder f;
	int r = 0;

	folder_begin(&f, fd);
	/* Without a JDK nobody reads any of them. */
	for (size_t i = 0; fd >= 0 && r == 0 && i < ARRAY_LEN(stores); i++)
		r = trust_java(p, stores[i], e);
	while (r == 0 && (entry = folder_next(&f)))
		r = trust_jdk(p, entry->name, e);
	return r;
}

/* --- Chromium: a policy of the machine's --- */

static const struct {
	const char *program, *policy;
} browsers[] = { { "/usr/bin/chromium", "/etc/chromium/policies/managed/brig.json" },
		 { "/usr/bin/google-chrome", "/etc/opt/chrome/policies/managed/brig.json" } };

static int plan_chromium(struct box_plan *p, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(browsers); i++)
		if (!p->policy_op && access(browsers[i].program, F_OK) == 0 &&
		    plan_door_is_shown(p, browsers[i].program) &&
		    !plan_door_is_shown(p, browsers[i].policy))
			return plan_door_add_file(p, browsers[i].policy, "", &p->policy_op, e);
	return 0;
}

/* The certificate as it is in the PEM, in one line. */
static const char *policy_text(struct box_plan *p, const char *pem)
{
	CLEANUP(buf) struct buf b = BUF_INIT(2 * OWN_ROOM);
	const char *at = strstr(pem, "-----\n");

	buf_puts(&b, "{\"CACertificates\": [\"");
	for (at = at ? at + 6 : ""; *at && *at != '-'; at++)
		if (*at != '\n')
			buf_putc(&b, *at);
	buf_puts(&b, "\"]}\n");
	return b.failed ? NULL : arena_strdup(p->arena, buf_str(&b));
}

/* --- all of it --- */

int plan_door(struct box_plan *p, struct err *e)
{
	struct door_want *w;
	const char *text = NULL;
	size_t i = 0;

	if (p->spec->network != NETWORK_PROXY)
		return 0;
	w = arena_alloc(p->arena, sizeof(*w));
	if (!w)
		return err_nomem(e);
	if (door_want(&p->spec->egress, w, e) < 0)
		return -e->code;
	p->door = w;
	while (i < ARRAY_LEN(bundles) && !(text = read_bundle(p, bundles[i])))
		i++;
	p->roots_room = text ? OWN_ROOM : 0;
	if (plan_door_add_file(p, DOOR_ROOTS, text ? text : "", &p->roots_op, e) < 0 ||
	    (text && show_over(p, bundles[i], DOOR_ROOTS, e) < 0))
		return -e->code;
	return plan_java(p, e) < 0 || plan_chromium(p, e) < 0 ? -e->code : 0;
}

size_t op_size(const struct op *o)
{
	return o->size || o->kind == OP_CODE ? o->size : strlen(o->data);
}

static int trust_others(struct box_plan *p, const char *pem, struct err *e)
{
	struct op *java = &p->ops[p->java_op], *policy = &p->ops[p->policy_op];

	if (p->java && java_store_end(p->java, pem, &java->data, &java->size, e) < 0)
		return -e->code;
	if (p->policy_op && !(policy->data = policy_text(p, pem)))
		return err_nomem(e);
	return 0;
}

int box_plan_trust(struct box_plan *p, const char *pem, struct err *e)
{
	struct op *o = &p->ops[p->roots_op];
	size_t n = strlen(pem);

	if (trust_others(p, pem, e) < 0)
		return -e->code;
	if (p->roots_room > n + 1) {
		char *end = (char *)(uintptr_t)o->data + strlen(o->data);

		*end = '\n';
		memcpy(end + 1, pem, n + 1);
		p->roots_room = 0;
		return 0;
	}
	o->data = arena_printf(p->arena, "%s\n%s", o->data, pem);
	return o->data ? 0 : err_nomem(e);
}

int box_plan_trust_ends(struct box_plan *p, const char *pem, struct trust_ends *ret, struct err *e)
{
	const struct op *at[TRUST_FILES];
	size_t had[TRUST_FILES], n = 0;

	for (size_t i = 0; i < p->op_count && n < TRUST_FILES; i++)
		if (p->ops[i].awaits) {
			at[n] = &p->ops[i];
			had[n++] = op_size(&p->ops[i]);
		}
	if (box_plan_trust(p, pem, e) < 0)
		return -e->code;
	*ret = (struct trust_ends){ .n = n };
	for (size_t i = 0; i < n; i++)
		ret->v[i] = (struct iovec){ .iov_base = (char *)(uintptr_t)at[i]->data + had[i],
					    .iov_len = op_size(at[i]) - had[i] };
	return 0;
}

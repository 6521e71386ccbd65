/* SPDX-License-Identifier: Apache-2.0 */
#include "model/known/ssh_pins.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/settings/rule.h"
#include "model/settings/spec_writes.h"

#define FILE_MAX ((size_t)4 << 20)
#define TEXT_MAX ((size_t)256 << 10)

/* ---- where keys come from ---- */

static int from_settings(struct arena *a, const struct spec *s, struct ssh_pin *p, struct err *e)
{
	for (size_t i = 0; i < s->egress.host_keys.n; i++) {
		const char *line = s->egress.host_keys.v[i];

		if (known_hosts_read(a, line, strlen(line), p->host, p->port, &p->keys, e) < 0)
			return -e->code;
	}
	return 0;
}

/* What is not there, or not for the caller to read, has no keys. What a command could have written
 * is refused by name: the user would take its silence for a key that nobody has. */
static int from_file(struct arena *a, const struct spec *s, const char *path, struct ssh_pin *p,
		     struct err *e)
{
	CLEANUP(mem) char *text = NULL;
	ssize_t n;

	if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0)
		return 0;
	if (spec_check_input(s, "the known_hosts file", path, e) < 0)
		return -e->code;
	text = malloc(FILE_MAX);
	if (!text)
		return err_nomem(e);
	n = fd_read_file(AT_FDCWD, path, text, FILE_MAX);
	if (n < 0 || (size_t)n >= FILE_MAX - 1)
		return n < 0 ? 0 : err_set(e, ERR_CONFIG, EFBIG, "'%s' is too large", path);
	return known_hosts_read(a, text, (size_t)n, p->host, p->port, &p->keys, e);
}

static int from_files(struct arena *a, const struct spec *s, struct ssh_pin *p, struct err *e)
{
	const char *home = getenv("HOME");
	char path[PATH_MAX];

	if (home && *home == '/' &&
	    snprintf(path, sizeof(path), "%s/.ssh/known_hosts", home) < (int)sizeof(path) &&
	    from_file(a, s, path, p, e) < 0)
		return -e->code;
	return from_file(a, s, SSH_KNOWN_INSIDE, p, e);
}

static int no_key(const struct ssh_pin *p, struct err *e)
{
	char at[300];

	(void)snprintf(at, sizeof(at), p->port == RULE_SSH_PORT ? "%s" : "[%s]:%u", p->host,
		       p->port);
	(void)err_set(e, ERR_CONFIG, ENOKEY, "'ssh:%.200s': no key of that host is known", p->host);
	return err_hint(e,
			"take it from where its owner publishes it, and set "
			"egress.host_keys: ['%.200s ssh-ed25519 KEY'], or log in once yourself and "
			"compare the fingerprint; what ssh-keyscan prints is the key of whoever "
			"answers",
			at);
}

static int find_keys(struct arena *a, const struct spec *s, struct ssh_pin *p, struct err *e)
{
	if (from_settings(a, s, p, e) < 0 || (!p->keys.n && from_files(a, s, p, e) < 0))
		return -e->code;
	known_hosts_settle(&p->keys);
	return p->keys.n ? 0 : no_key(p, e);
}

static int add_pin(struct arena *a, const struct spec *s, const struct rule *r, uint16_t port,
		   struct ssh_pins *ret, struct err *e)
{
	struct ssh_pin *p = &ret->v[ret->n];

	for (size_t i = 0; i < ret->n; i++)
		if (ret->v[i].port == port && str_eq(ret->v[i].host, r->host))
			return 0;
	if (ret->n == SSH_PINS_MAX)
		return err_set(e, ERR_CONFIG, E2BIG,
			       "egress.allow: more than %d hosts with ssh:", SSH_PINS_MAX);
	*p = (struct ssh_pin){ .host = r->host, .port = port };
	if (find_keys(a, s, p, e) < 0)
		return -e->code;
	ret->n++;
	return 0;
}

/* A line that no host could ever use is a slip that would be found out too late. */
static int check_lines(const struct spec *s, struct err *e)
{
	for (size_t i = 0; i < s->egress.host_keys.n; i++)
		if (!known_hosts_is_line(s->egress.host_keys.v[i]))
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "as in known_hosts: 'HOST ssh-ed25519 KEY', or "
					  "'[HOST]:PORT ssh-ed25519 KEY'",
					  "egress.host_keys: '%.100s' is not a host and its key",
					  s->egress.host_keys.v[i]);
	return 0;
}

int ssh_pins_find(struct arena *a, const struct spec *s, struct ssh_pins *ret, struct err *e)
{
	struct rule r;

	ret->n = 0;
	if (s->network != NETWORK_PROXY)
		return 0;
	if (check_lines(s, e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->egress.allow.n; i++) {
		if (rule_parse(a, s->egress.allow.v[i], &r, e) < 0)
			return -e->code;
		for (size_t k = 0; r.ssh && k < r.n_ports; k++)
			if (add_pin(a, s, &r, r.ports[k], ret, e) < 0)
				return -e->code;
	}
	return 0;
}

bool ssh_pins_wanted(struct arena *a, const struct spec *s)
{
	struct rule r;
	struct err unused;

	for (size_t i = 0; i < s->egress.allow.n; i++)
		if (rule_parse(a, s->egress.allow.v[i], &r, &unused) == 0 && r.ssh)
			return true;
	return false;
}

/* ---- inside ---- */

/* A host that has one port, and not the usual one: who names the host means that port. */
static bool has_one_port(const struct ssh_pins *p, size_t at)
{
	for (size_t i = 0; i < p->n; i++)
		if (i != at && str_eq(p->v[i].host, p->v[at].host))
			return false;
	return p->v[at].port != RULE_SSH_PORT;
}

const char *ssh_pins_config(struct arena *a, const struct ssh_pins *p)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);

	for (size_t i = 0; i < p->n; i++)
		if (has_one_port(p, i))
			buf_printf(&b, "Host %s\n\tPort %u\n", p->v[i].host, p->v[i].port);
	buf_puts(&b, "Host *\n"
		     "\tGlobalKnownHostsFile " SSH_KNOWN_INSIDE "\n"
		     "\tUserKnownHostsFile /dev/null\n"
		     "\tStrictHostKeyChecking yes\n"
		     "\tUpdateHostKeys no\n"
		     "\tCheckHostIP no\n"
		     "\tVerifyHostKeyDNS no\n"
		     "\tAddKeysToAgent no\n");
	return b.failed ? NULL : arena_strdup(a, buf_str(&b));
}

const char *ssh_pins_known(struct arena *a, const struct ssh_pins *p)
{
	CLEANUP(buf) struct buf b = BUF_INIT(TEXT_MAX);

	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->v[i].keys.n; k++) {
			if (p->v[i].port == RULE_SSH_PORT)
				buf_puts(&b, p->v[i].host);
			else
				buf_printf(&b, "[%s]:%u", p->v[i].host, p->v[i].port);
			buf_printf(&b, " %s %s\n", p->v[i].keys.v[k].kind, p->v[i].keys.v[k].text);
		}
	return b.failed ? NULL : arena_strdup(a, buf_str(&b));
}

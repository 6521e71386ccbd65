/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/rule.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"
#include "model/settings/groups.h"
#include "model/settings/spec_lists.h"
#include "model/settings/suffixes.h"

#define RULE_MAX 2048
#define METHODS_MAX 16
#define METHOD_MAX 24

bool method_valid(const char *method)
{
	size_t n = strlen(method);

	if (!n || n > METHOD_MAX || strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != n)
		return false;
	/* One reflects what was injected, the other opens a tunnel nobody looks into. */
	return !str_eq(method, "TRACE") && !str_eq(method, "CONNECT");
}

static int parse_methods(struct arena *a, const char *p, size_t n, struct strlist *ret,
			 struct err *e)
{
	for (const char *end = p + n; p < end;) {
		size_t len = strcspn(p, ", ");
		const char *word = arena_strndup(a, p, len);

		if (!word)
			return err_nomem(e);
		if (!method_valid(word) || ret->n == METHODS_MAX)
			return err_refuse(e, ERR_CONFIG, EINVAL,
					  "in capitals, such as GET,HEAD; TRACE and CONNECT are "
					  "never let through",
					  "'%.40s' is not a method of a rule", word);
		if (list_add_string(a, ret, word, e) < 0)
			return -e->code;
		p += len + 1;
	}
	return 0;
}

static int parse_port(const char *p, size_t n, uint16_t *ret, struct err *e)
{
	char text[8] = "";
	uint64_t v = 0;

	if (n && n < sizeof(text))
		memcpy(text, p, n);
	if (!*text || *text == '0' || num_count(text, &v) < 0 || v > UINT16_MAX)
		return err_refuse(e, ERR_CONFIG, EINVAL, "a number from 1 to 65535",
				  "'%.*s' is not a port", (int)(n < 40 ? n : 40), p);
	*ret = (uint16_t)v;
	return 0;
}

static int parse_ports(const char *p, size_t n, struct rule *r, struct err *e)
{
	for (const char *end = p + n;;) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;

		if (r->n_ports == RULE_PORTS_MAX)
			return err_set(e, ERR_CONFIG, E2BIG, "more than %d ports in one rule",
				       RULE_PORTS_MAX);
		if (parse_port(p, (size_t)(stop - p), &r->ports[r->n_ports], e) < 0)
			return -e->code;
		r->n_ports++;
		if (!comma)
			return 0;
		p = comma + 1;
	}
}

int path_prefix_check(const char *path, struct err *e)
{
	size_t n = strlen(path);

	if (*path != '/' || strpbrk(path, "%\\;?#\"<>^`{|} ") || str_has_control(path) ||
	    strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../") ||
	    (n >= 2 && str_eq(path + n - 2, "/.")) || (n >= 3 && str_eq(path + n - 3, "/..")))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "begin with '/', without escapes, dot segments, queries and "
				  "patterns: /repos/",
				  "'%.100s' is not a path prefix", path);
	for (; *path; path++)
		if ((unsigned char)*path >= 0x80)
			return err_set(e, ERR_CONFIG, EINVAL,
				       "a path prefix with bytes beyond ASCII");
	return 0;
}

static int set_host(struct arena *a, const char *p, size_t n, const char **ret, struct err *e)
{
	char *host = arena_strndup(a, p, n);

	if (!host)
		return err_nomem(e);
	for (char *c = host; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + ('a' - 'A'));
	if (host_check(host, e) < 0)
		return -e->code;
	*ret = host;
	return 0;
}

static int parse_host(struct arena *a, const char *p, struct rule *r, struct err *e)
{
	size_t n = strcspn(p, "/"), host = strcspn(p, ":/");

	if (*p == '[' || strstr(p, "://"))
		return host_check(p, e); /* knows what to say about addresses and schemes */
	if (set_host(a, p, host, &r->host, e) < 0)
		return -e->code;
	if (host < n && parse_ports(p + host + 1, n - host - 1, r, e) < 0)
		return -e->code;
	if (!p[n])
		return 0;
	if (path_prefix_check(p + n, e) < 0)
		return -e->code;
	r->path = str_eq(p + n, "/") ? NULL : arena_strdup(a, p + n);
	return r->path || str_eq(p + n, "/") ? 0 : err_nomem(e);
}

/* "push:", "fetch:", "ws:" and "ssh:" before a host; a host of that name with a port is none. */
static const char *parse_kind(const char *text, struct rule *r)
{
	static const struct {
		const char *word;
		enum rule_git git;
		bool ws, ssh;
	} words[] = { { "fetch:", RULE_FETCH, false, false },
		      { "push:", RULE_PUSH, false, false },
		      { "ws:", RULE_ALL, true, false },
		      { "ssh:", RULE_ALL, false, true } };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		const char *host = text + strlen(words[i].word);

		if (!str_starts(text, words[i].word))
			continue;
		if (*host && strchr("/", host[strspn(host, "0123456789,")]))
			continue;
		r->git = words[i].git;
		r->ws = words[i].ws;
		r->ssh = words[i].ssh;
		return host;
	}
	return text;
}

/* A repository is the same with ".git" and without. */
static int settle_repository(struct arena *a, struct rule *r, struct err *e)
{
	size_t n = r->path ? strlen(r->path) : 0;

	if (n > 5 && str_ends_nocase(r->path, ".git")) {
		r->path = arena_strndup(a, r->path, n - 4);
		return r->path ? 0 : err_nomem(e);
	}
	return 0;
}

/* A tunnel has no requests; and a host key is one exact host's. */
static int settle_ssh(struct rule *r, struct err *e)
{
	if (r->path)
		return err_refuse(e, ERR_CONFIG, EINVAL, "write ssh:HOST or ssh:HOST:PORT",
				  "'%.100s': nobody looks into a tunnel for SSH, so no path of it "
				  "can be allowed",
				  r->text);
	if (*r->host == '*')
		return err_refuse(e, ERR_CONFIG, EINVAL, "name each host",
				  "'%.100s': the key of a host is known for one name, not for a "
				  "pattern",
				  r->text);
	if (!r->n_ports)
		r->ports[r->n_ports++] = RULE_SSH_PORT;
	return 0;
}

bool rule_is_narrow(const struct rule *r)
{
	return r->path || r->methods.n || r->git || r->ws;
}

int rule_parse(struct arena *a, const char *text, struct rule *ret, struct err *e)
{
	struct rule r = { .text = arena_strdup(a, text) };
	const char *blank = strchr(text, ' ');
	const struct group *g;

	if (!r.text)
		return err_nomem(e);
	if (strlen(text) > RULE_MAX || str_has_control(text))
		return err_set(e, ERR_CONFIG, EINVAL,
			       "a rule that is too long or has control characters");
	if (*text == '@') {
		if (group_get(text, &g, e) < 0)
			return -e->code;
		r.group = g->name;
		*ret = r;
		return 0;
	}
	if (blank && str_starts(blank + 1, "ssh:"))
		return err_refuse(e, ERR_CONFIG, EINVAL, "write ssh:HOST or ssh:HOST:PORT",
				  "'%.100s': nobody looks into a tunnel for SSH, so no method of "
				  "it can be allowed",
				  text);
	if (blank && parse_methods(a, text, (size_t)(blank - text), &r.methods, e) < 0)
		return -e->code;
	if (parse_host(a, blank ? blank + 1 : parse_kind(text, &r), &r, e) < 0)
		return -e->code;
	if ((r.git && settle_repository(a, &r, e) < 0) || (r.ssh && settle_ssh(&r, e) < 0))
		return -e->code;
	*ret = r;
	return 0;
}

/* Words that are names by their form and can never be meant as one. */
static int check_word(const struct rule *r, struct err *e)
{
	unsigned port = r->n_ports ? r->ports[0] : 8080;

	if (str_eq(r->host, "localhost") || str_ends_nocase(r->host, ".localhost")) {
		(void)err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is the sandbox itself, inside",
			      r->host);
		return err_hint(e,
				"for a service of this host: --network proxy --set "
				"egress.host_service=%u; inside it is "
				"http://host.brig.internal:%u",
				port, port);
	}
	if (str_eq(r->text, r->host) && group_find(r->host)) {
		(void)err_set(e, ERR_CONFIG, EINVAL, "'%s' is a group, not a host", r->host);
		return err_hint(e, "write @%s; %s:443 is a host of that name", r->host, r->host);
	}
	return 0;
}

int rule_check_allow(const struct rule *r, struct err *e)
{
	if (!r->host || check_word(r, e) < 0)
		return r->host ? -e->code : 0;
	/* It would let out whatever a stranger puts there; the exact name can still be allowed. */
	if (!str_starts(r->host, "*.") || !suffix_is_anybodys(r->host + 2))
		return 0;
	(void)err_set(e, ERR_CONFIG, EINVAL, "'%s' covers names that anybody can have", r->host);
	return err_hint(e, "name the host: --allow NAME.%s", r->host + 2);
}

int list_add_rule(struct arena *a, struct strlist *l, const char *text, struct err *e)
{
	struct rule r;

	if (rule_parse(a, text, &r, e) < 0)
		return -e->code;
	return list_add_string(a, l, text, e);
}

int rule_parse_host_port(struct arena *a, const char *text, const char **host, uint16_t *port,
			 struct err *e)
{
	struct rule r = { 0 };

	if (strpbrk(text, " @*/,"))
		return err_refuse(e, ERR_CONFIG, EINVAL,
				  "a credential is bound to exact hosts, such as api.example.org",
				  "'%.100s' is not HOST[:PORT]", text);
	if (rule_parse(a, text, &r, e) < 0)
		return -e->code;
	if (r.git || r.ws || r.ssh)
		return err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not HOST[:PORT]", text);
	*host = r.host;
	*port = r.n_ports ? r.ports[0] : 443;
	return 0;
}

static int not_a_pin(const char *text, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL,
			  "such as 10.0.0.5, 10.0.0.5:8443 or [fd00::5]:8443",
			  "'%.100s' is not ADDR[:PORT]", text);
}

int pin_parse(const char *text, int *family, uint8_t addr[16], uint16_t *port, struct err *e)
{
	const char *close = *text == '[' ? strchr(text, ']') : NULL,
		   *begin = text + (close ? 1 : 0);
	const char *colon = close ? (close[1] ? close + 1 : NULL) : strchr(text, ':');
	char host[48] = "";
	size_t n;

	if (!close && colon && strchr(colon + 1, ':'))
		colon = NULL; /* a bare IPv6 address */
	n = close ? (size_t)(close - begin) : colon ? (size_t)(colon - begin) : strlen(begin);
	if (!n || n >= sizeof(host) || (colon && *colon != ':'))
		return not_a_pin(text, e);
	memcpy(host, begin, n);
	*port = 0;
	if (colon && parse_port(colon + 1, strlen(colon + 1), port, e) < 0)
		return -e->code;
	*family = !close && inet_pton(AF_INET, host, addr) == 1 ? 4
		  : inet_pton(AF_INET6, host, addr) == 1        ? 6
								: 0;
	return *family ? 0 : not_a_pin(text, e);
}

int list_merge_pin(struct arena *a, struct envlist *l, const char *text, enum origin by,
		   struct err *e)
{
	size_t n = strcspn(text, "=");
	uint8_t addr[16];
	const char *host = "";
	uint16_t port;
	int family;

	if (!text[n])
		return err_set(e, ERR_USAGE, EINVAL, "resolve '%.100s' is not HOST=ADDR[:PORT]",
			       text);
	if (set_host(a, text, n, &host, e) < 0 ||
	    pin_parse(text + n + 1, &family, addr, &port, e) < 0)
		return -e->code;
	if (*host == '*')
		return err_set(e, ERR_CONFIG, EINVAL, "resolve '%s': one host, not a pattern",
			       host);
	text = arena_printf(a, "%s=%s", host, text + n + 1);
	return text ? list_merge_label(a, l, text, by, e) : err_nomem(e);
}

int rule_host_alone(struct arena *a, const char *text, size_t n, const char **ret, struct err *e)
{
	const char *host = arena_strndup(a, text, n);
	struct rule r;

	if (!host)
		return err_nomem(e);
	if (rule_parse(a, host, &r, e) < 0)
		return -e->code;
	if (r.group || r.n_ports || rule_is_narrow(&r))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not a host alone", host);
	*ret = r.host;
	return 0;
}

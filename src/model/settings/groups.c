/* SPDX-License-Identifier: Apache-2.0 */
#include "model/settings/groups.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h"
#include "model/settings/spec_lists.h"

#define HOST_MAX 253
#define LABEL_MAX 63

/* Registries that serve from hosts below their own name are written as one wildcard each. */
static const char *const pypi[] = { "pypi.org", "*.pythonhosted.org", NULL };
/* yarn has a name of its own for the same registry. */
static const char *const npm[] = { "*.npmjs.org", "*.yarnpkg.com", NULL };
static const char *const crates[] = { "crates.io", "*.crates.io", NULL };
static const char *const go[] = { "proxy.golang.org", NULL };
static const char *const docs[] = { "docs.rs",    "doc.rust-lang.org",
				    "nodejs.org", "docs.python.org",
				    "go.dev",     NULL };
/* api.github.com: the documented credential example asks for it. */
static const char *const git[] = { "github.com", "raw.githubusercontent.com", "gitlab.com",
				   "api.github.com", NULL };
static const char *const build[] = { "dl.google.com", "download.qt.io", NULL };

/* What `npm install` asks about known faults goes there by POST. Nothing is published there, and
 * nobody but the registry sees it, which sees the path of every GET, too. */
static const char *const npm_reading[] = { "GET,HEAD *.npmjs.org",
					   "POST *.npmjs.org/-/npm/v1/security/",
					   "GET,HEAD *.yarnpkg.com",
					   "POST *.yarnpkg.com/-/npm/v1/security/", NULL };
/* The proxy fetches a module from the server that its path names: a GET of
 * /attacker.example/WHATEVER/@v/list is a message to that server. So only paths of servers whose
 * visitors are not shown to whoever has a name there, but as a number a day. */
static const char *const go_reading[] = {
	"GET,HEAD proxy.golang.org/github.com/", "GET,HEAD proxy.golang.org/gitlab.com/",
	"GET,HEAD proxy.golang.org/golang.org/", "GET,HEAD proxy.golang.org/google.golang.org/",
	"GET,HEAD proxy.golang.org/gopkg.in/",   "GET,HEAD proxy.golang.org/go.uber.org/",
	"GET,HEAD proxy.golang.org/k8s.io/",     NULL
};
#define GO_REMARK                                                                                  \
	"the Go proxy asks the server that a module's path names, which may be anybody's: one "    \
	"line for each that is open"

const struct group groups[] = {
	{ "pypi", "Python packages", pypi, NULL, NULL },
	{ "npm", "Node packages", npm, npm_reading, NULL },
	{ "crates", "Rust packages", crates, NULL, NULL },
	{ "go", "Go modules", go, go_reading, GO_REMARK },
	{ "docs", "documentation", docs, NULL, NULL },
	{ "git", "version control", git, NULL, NULL },
	{ "build", "build tools", build, NULL, NULL },
};
static_assert(sizeof(groups) / sizeof(*groups) == GROUP_COUNT, "a row for every group");

const struct group *group_find(const char *name)
{
	name += *name == '@';
	for (size_t i = 0; i < GROUP_COUNT; i++)
		if (str_eq(groups[i].name, name))
			return &groups[i];
	return NULL;
}

int group_get(const char *name, const struct group **ret, struct err *e)
{
	const struct group *g = group_find(name);
	const char *words[GROUP_COUNT + 1] = { NULL }, *near;

	if (g) {
		*ret = g;
		return 0;
	}
	for (size_t i = 0; i < GROUP_COUNT; i++)
		words[i] = groups[i].name;
	name += *name == '@';
	near = str_nearest(name, words);
	(void)err_set(e, ERR_CONFIG, EINVAL, "unknown group '@%s'", name);
	return near ? err_hint(e, "did you mean '@%s'?", near)
		    : err_hint(e, "the groups are pypi, npm, crates, go, docs, git and build");
}

bool host_covers(const char *pattern, const char *host)
{
	if (strcasecmp(pattern, host) == 0)
		return true;
	/* The dot of "*.x" takes part, and something must stand before it. */
	return str_starts(pattern, "*.") && !str_starts(host, "*.") &&
	       strlen(host) > strlen(pattern + 1) && str_ends_nocase(host, pattern + 1);
}

const struct group *group_covering(const char *host)
{
	for (size_t i = 0; i < GROUP_COUNT; i++)
		for (const char *const *h = groups[i].hosts; *h; h++)
			if (host_covers(*h, host))
				return &groups[i];
	return NULL;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool groups_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool label_ok(const char *p, size_t n)
{
	if (!n || n > LABEL_MAX || p[0] == '-' || p[n - 1] == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_letter(p[i]) && !groups_is_digit(p[i]) && p[i] != '-')
			return false;
	return true;
}

/* What the user most likely wrote instead of a name. */
static int not_a_host(const char *text, struct err *e)
{
	const char *why = strstr(text, "://") ? "write the host alone, without a scheme"
			  : strpbrk(text, ":/?#@")
				  ? "write the host alone; ports and path prefixes "
				    "belong to egress.allow of a brig.yaml"
			  : strchr(text, '*')        ? "only a leading '*.' is known"
			  : text[strcspn(text, " ")] ? "separate hosts by commas"
						     : "letters, digits, hyphens and dots, such as "
						       "api.example.com or *.example.com";

	(void)err_set(e, ERR_CONFIG, EINVAL, "'%.100s' is not a host name", text);
	return err_hint(e, "%s", why);
}

static int not_a_name(const char *text, struct err *e)
{
	bool loopback = str_starts(text, "127.") || str_starts(text, "[::1]");

	return err_refuse(e, ERR_CONFIG, EINVAL,
			  loopback ? "loopback is the sandbox itself, inside; for a service of "
				     "this host: egress.host_service"
				   : "the allowlist is made of names",
			  "'%.100s' is an address, not a host name", text);
}

int host_check(const char *text, struct err *e)
{
	bool wild = str_starts(text, "*.");
	const char *p = wild ? text + 2 : text, *last;
	size_t labels = 0, n;

	if (strlen(text) > HOST_MAX || str_has_control(text))
		return err_set(e, ERR_CONFIG, EINVAL,
			       "a host name that is too long or has control characters");
	if (*text == '[')
		return not_a_name(text, e);
	for (;; p += n + 1) {
		n = strcspn(p, ".");
		if (!label_ok(p, n))
			return not_a_host(text, e);
		labels++;
		last = p;
		if (!p[n])
			break;
	}
	if (!is_letter(*last))
		return not_a_name(text, e);
	if (wild && labels < 2)
		return err_refuse(e, ERR_CONFIG, EINVAL, "name the domain: *.example.com",
				  "'%s' covers a whole top-level domain", text);
	return 0;
}

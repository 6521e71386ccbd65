/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/setup/setup_text.h"

#include <string.h>

#include "base/bytes/json.h"

#define REASON_COLUMN 36

bool setup_loosens(const struct setup_answers *a)
{
	return a->backend || a->image || a->keep_home || a->network != SETUP_NETWORK_NONE;
}

static void put_found(const struct project_found *f, struct buf *out)
{
	if (!f->n)
		return;
	buf_puts(out, "\n# Found here:");
	for (size_t i = 0; i < f->n; i++)
		buf_printf(out, "%s %s (%s)", i ? "," : "", f->markers[i]->name,
			   f->markers[i]->what);
	buf_puts(out, ".\n");
}

/* A rule, and in its column the reason, for the first of its group. */
static void put_rule(const char *methods, const char *rule, const struct group *g, struct buf *out)
{
	bool first = rule == (g->reading ? g->reading[0] : g->hosts[0]);
	int used = (int)(strlen("    - ") + strlen(methods) + strlen(rule));

	buf_printf(out, "    - %s%s", methods, rule);
	if (first)
		buf_printf(out, "%*s# @%s: %s", used < REASON_COLUMN - 1 ? REASON_COLUMN - used : 2,
			   "", g->name, g->help);
	buf_putc(out, '\n');
}

static void put_group(const struct group *g, struct buf *out)
{
	if (g->remark)
		buf_printf(out, "    # %s\n", g->remark);
	for (const char *const *r = g->reading; r && *r; r++)
		put_rule("", *r, g, out);
	for (const char *const *h = g->reading ? NULL : g->hosts; h && *h; h++)
		put_rule("GET,HEAD ", *h, g, out);
}

/* YAML reads a text of JSON as JSON does. */
static void put_quoted(struct buf *out, const char *text)
{
	json_quote(out, text, strlen(text));
}

/* Whose host it names is the project's text, and not read: a stranger's project would open it. */
static void put_registries(const struct project_found *f, struct buf *out)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->markers[i]->registry)
			buf_printf(out,
				   "    # %s may name another registry: if so, its host is one "
				   "more line, - GET,HEAD HOST\n",
				   f->markers[i]->name);
}

static void put_hosts(const struct setup_answers *a, const struct project_found *f, struct buf *out)
{
	const struct group *found[GROUP_COUNT];
	size_t n = a->network == SETUP_NETWORK_PACKAGES ? project_groups(f, found) : 0;

	buf_puts(out,
		 "\n# No network but these hosts. A closed one answers 403, and brig says which "
		 "line would open it.\n");
	if (n) {
		buf_puts(out,
			 "# Packages can be read there and not be published. For every path and "
			 "method write the group in place of its lines:");
		for (size_t i = 0; i < n; i++)
			buf_printf(out, " - \"@%s\"", found[i]->name);
		buf_putc(out, '\n');
	}
	buf_puts(out, "network: proxy\negress:\n  allow:\n");
	for (size_t i = 0; i < n; i++)
		put_group(found[i], out);
	if (n)
		put_registries(f, out);
	for (size_t i = 0; i < a->allow.n; i++) {
		if (i < a->why.n)
			buf_printf(out, "    # %s\n", a->why.v[i]);
		buf_puts(out, "    - ");
		put_quoted(out, a->allow.v[i]);
		buf_putc(out, '\n');
	}
	if (a->fields.n)
		buf_puts(out, "  fields:\n");
	for (size_t i = 0; i < a->fields.n; i++) {
		buf_puts(out, "    - ");
		put_quoted(out, a->fields.v[i]);
		buf_putc(out, '\n');
	}
}

static void put_network(const struct setup_answers *a, const struct project_found *f,
			struct buf *out)
{
	if (a->network != SETUP_NETWORK_NONE) {
		put_hosts(a, f, out);
		return;
	}
	buf_puts(out, "\n# No network. For hosts that you know, each request checked at a door:\n"
		      "#   network: proxy\n"
		      "#   egress: {allow: [\"GET,HEAD pypi.org\", \"@git\", api.example.org]}\n"
		      "network: none\n");
}

static void put_backend(const struct setup_answers *a, struct buf *out)
{
	if (!a->backend && !a->image) {
		buf_puts(out, "\n# What contains a run: native, else bwrap, else docker, whichever "
			      "works on the machine.\n# backend: auto\n");
		return;
	}
	buf_puts(out, "\n# What contains a run. Where it is not available nothing runs.\n");
	if (a->backend)
		buf_printf(out, "backend: %s\n", a->backend);
	if (a->image) {
		buf_puts(out, "image: ");
		put_quoted(out, a->image);
		buf_putc(out, '\n');
	}
}

static const char tail[] =
	"\n# The most that one run may take; these are examples.\n"
	"# limits:\n"
	"#   memory: 2g\n"
	"#   timeout: 10m\n"
	"\n# More of this machine, read-only, and toolchains below your home folder.\n"
	"# read: [~/datasets]\n"
	"# toolchains: true\n"
	"\n# A key of yours for the host it belongs to; the command holds a placeholder.\n"
	"# use_credentials: [GITHUB_TOKEN]\n";

void setup_text(const struct setup_answers *a, const struct project_found *f, struct buf *out)
{
	buf_puts(out,
		 "# Settings of brig for this project: of brig run, shell, wrap and mcp here.\n"
		 "#   brig config check .brig.yaml     is it right\n"
		 "#   brig config show --origin        what holds, and who says so\n"
		 "#   brig allow                       trust it again after a change\n"
		 "brig: 1\n");
	put_found(f, out);
	buf_puts(out, "\n# A command may change this folder; with readonly nothing but /tmp.\n"
		      "policy: workspace_write\n");
	put_network(a, f, out);
	put_backend(a, out);
	buf_puts(out,
		 a->keep_home
			 ? "\n# HOME is kept for this project, with its caches.\nhome: keep\n"
			 : "\n# HOME is empty and gone afterwards. Kept for this project, with "
			   "its caches:\n# home: keep\n");
	if (a->overlay)
		buf_puts(out,
			 "\n# What commands write goes to a layer over the folder: brig diff shows "
			 "it,\n# brig apply puts it there.\nworkspace:\n  mode: overlay\n");
	buf_puts(out, tail);
	if (a->agent)
		buf_printf(out,
			   "\n# The agent: `brig wrap %s` runs it in a sandbox. It brings its own "
			   "hosts and HOME.\n",
			   a->agent);
}

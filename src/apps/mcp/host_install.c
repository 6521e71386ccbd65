/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/mcp/host_install.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/mcp/host_entry.h"
#include "base/bytes/json.h"
#include "base/files/draft.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/str.h"

#define FILE_MAX ((size_t)16 << 20)
#define NAME "brig"

/* How an entry is written. */
enum host_style {
	STYLE_PLAIN, /* {"command": ..., "args": [...]} */
	STYLE_TYPED, /* with "type": "stdio" */
	STYLE_LOCAL, /* {"type": "local", "command": [...], "enabled": true} */
	STYLE_TOML,
};

struct mcp_host {
	const char *name, *title;
	bool config; /* below the configuration folder, not HOME itself */
	const char *file, *section;
	enum host_style style;
};

static const struct mcp_host hosts[] = {
	{ "claude-code", "Claude Code", false, ".claude.json", "mcpServers", STYLE_TYPED },
	{ "claude-desktop", "Claude Desktop", true, "Claude/claude_desktop_config.json",
	  "mcpServers", STYLE_PLAIN },
	{ "codex", "Codex", false, ".codex/config.toml", "mcp_servers", STYLE_TOML },
	{ "cursor", "Cursor", false, ".cursor/mcp.json", "mcpServers", STYLE_PLAIN },
	{ "gemini", "Gemini CLI", false, ".gemini/settings.json", "mcpServers", STYLE_PLAIN },
	{ "opencode", "opencode", true, "opencode/opencode.json", "mcp", STYLE_LOCAL },
	{ "vscode", "VS Code", true, "Code/User/mcp.json", "servers", STYLE_TYPED },
	{ "windsurf", "Windsurf", false, ".codeium/windsurf/mcp_config.json", "mcpServers",
	  STYLE_PLAIN },
};

const struct mcp_host *host_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		if (str_eq(hosts[i].name, name))
			return &hosts[i];
	return NULL;
}

const char *host_name(size_t i)
{
	return i < ARRAY_LEN(hosts) ? hosts[i].name : NULL;
}

/* ---- the entry ---- */

/* JSON's strings are TOML's, too. */
static void put_list(struct buf *b, const char *first, char *const *args)
{
	const char *comma = "";

	buf_putc(b, '[');
	if (first) {
		json_quote(b, first, strlen(first));
		comma = ", ";
	}
	buf_puts(b, comma);
	buf_puts(b, "\"mcp\"");
	for (; *args; args++) {
		buf_puts(b, ", ");
		json_quote(b, *args, strlen(*args));
	}
	buf_putc(b, ']');
}

static void host_install_put_entry(const struct mcp_host *h, const char *program, char *const *args,
				   struct buf *b)
{
	if (h->style == STYLE_LOCAL) {
		buf_puts(b, "{\"type\": \"local\", \"command\": ");
		put_list(b, program, args);
		buf_puts(b, ", \"enabled\": true}");
		return;
	}
	buf_puts(b, h->style == STYLE_TOML    ? "command = "
		    : h->style == STYLE_TYPED ? "{\"type\": \"stdio\", \"command\": "
					      : "{\"command\": ");
	json_quote(b, program, strlen(program));
	buf_puts(b, h->style == STYLE_TOML ? "\nargs = " : ", \"args\": ");
	put_list(b, NULL, args);
	buf_puts(b, h->style == STYLE_TOML ? "\n" : "}");
}

/* ---- the file ---- */

/* Its folder, opened, and its name in there; neither for a file that is made only in words. */
struct host_file {
	int folder;
	const char *name;
	struct stat st;
	struct buf text;
};

/* `add`: an entry that a guest could rewrite would be a program of its own that is started here. */
static int find_file(const struct mcp_host *h, const char *home, const char *config, bool add,
		     struct host_change *c, struct err *e)
{
	char path[PATH_MAX];
	CLEANUP(mem) char *real = NULL;
	int n = h->config && config ? snprintf(path, sizeof(path), "%s/%s", config, h->file)
				    : snprintf(path, sizeof(path), "%s%s/%s", home,
					       h->config ? "/.config" : "", h->file);

	if (n < 0 || (size_t)n >= sizeof(path) - 16)
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "the path of the file is too long");
	real = realpath(path, NULL);
	if (!real && errno != ENOENT)
		return err_sys(e, "cannot find '%s'", path);
	if (!real) {
		struct stat st;

		if (lstat(path, &st) == 0)
			return err_refuse(e, ERR_CONFIG, ENOENT, "remove it, or make what it names",
					  "'%s' is a link to nothing", path);
	}
	if (add && exposed_check("the file of settings", path, NULL, 0, e) < 0)
		return -e->code;
	if (real && strlen(real) >= sizeof(c->path) - 16)
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "the path of the file is too long");
	(void)snprintf(c->path, sizeof(c->path), "%s", real ? real : path);
	c->there = real != NULL;
	return 0;
}

static int host_install_open_folder(const struct mcp_host *h, const struct host_change *c,
				    struct host_file *f, struct err *e)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(c->path, '/');

	f->name = slash + 1;
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - c->path), c->path);
	f->folder = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->folder >= 0)
		return 0;
	(void)err_sys(e, "cannot open '%s'", folder);
	return err_hint(e, "start %s once, so that it makes its folder", h->title);
}

static int read_file_text(const struct host_change *c, struct host_file *f, struct err *e)
{
	CLEANUP(fd)
	int fd = c->there ? openat(f->folder, f->name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
			  : -1;
	char part[16384];
	ssize_t n;

	f->st.st_mode = S_IFREG | 0600;
	if (!c->there)
		return 0;
	if (fd < 0 || fstat(fd, &f->st) < 0)
		return err_sys(e, "cannot open '%s'", c->path);
	if (!S_ISREG(f->st.st_mode) || f->st.st_uid != geteuid())
		return err_set(e, ERR_POLICY, EPERM, "'%s' is no file of yours", c->path);
	while ((n = read(fd, part, sizeof(part))) > 0)
		buf_add(&f->text, part, (size_t)n);
	if (n < 0)
		return err_sys(e, "cannot read '%s'", c->path);
	return f->text.failed ? err_set(e, ERR_CONFIG, EFBIG, "'%s' is too large", c->path) : 0;
}

/* Is it the file that was read, as it was? Its program may have written it meanwhile. */
static bool as_read(const struct host_file *f, bool there)
{
	struct stamp was = stamp_of(&f->st), is;
	struct stat now;

	if (fstatat(f->folder, f->name, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return !there && errno == ENOENT;
	is = stamp_of(&now);
	return there && stamp_same(&was, &is);
}

/* `there`: NULL for a name that may be replaced whatever stands there. */
static int host_install_put_file(const struct host_file *f, const char *name,
				 const struct buf *text, const bool *there, struct err *e)
{
	struct draft d;
	int r = draft_open(f->folder, &d);

	if (r == 0) {
		r = fd_write_all(d.fd, buf_str(text), text->len);
		if (r == 0 && fsync(d.fd) < 0)
			r = -errno;
		if (r == 0 && there && !as_read(f, *there))
			r = -EAGAIN;
		if (r < 0)
			draft_drop(&d);
		else
			r = draft_keep(&d, name, f->st.st_mode & 07777);
	}
	if (r == -EAGAIN)
		return err_refuse(e, ERR_UNAVAILABLE, EAGAIN, "say it again; it is as it was",
				  "'%s' was changed by somebody else meanwhile", name);
	return r < 0 ? err_errno(e, r, "cannot write '%s'", name) : 0;
}

/* The file as it was before brig. -ENOENT: no copy was kept, as there was no file. */
static int read_backup(const struct host_file *f, const char *name, struct buf *ret)
{
	CLEANUP(fd)
	int fd = openat(f->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	return buf_read_file(ret, fd);
}

static bool same_text(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

/* A section that brig made goes with its entry, and so does a file that has nothing else. */
static void undo(const struct mcp_host *h, const struct host_file *f, const char *backup,
		 struct buf *out, struct host_change *c)
{
	CLEANUP(buf) struct buf before = BUF_INIT(FILE_MAX);
	CLEANUP(buf) struct buf less = BUF_INIT(FILE_MAX);
	int r = read_backup(f, backup, &before);

	if (h->style != STYLE_TOML && (r == 0 || r == -ENOENT) &&
	    entry_section(buf_str(&before), before.len, h->section) == SECTION_ABSENT &&
	    entry_cut_section(buf_str(out), out->len, h->section, &less) == 0 && !less.failed) {
		out->len = 0;
		buf_add(out, buf_str(&less), less.len);
	}
	c->restores = r == 0 && same_text(&before, out);
	c->removes =
		r == -ENOENT &&
		strspn(buf_str(out), h->style == STYLE_TOML ? " \t\r\n" : "{} \t\r\n") == out->len;
}

static int host_install_remove(const struct host_file *f, struct err *e)
{
	if (!as_read(f, true))
		return err_refuse(e, ERR_UNAVAILABLE, EAGAIN, "say it again; it is as it was",
				  "'%s' was changed by somebody else meanwhile", f->name);
	return unlinkat(f->folder, f->name, 0) < 0 ? err_sys(e, "cannot remove '%s'", f->name) : 0;
}

/* What the user is to do where the text was not understood. */
static void by_hand(const struct mcp_host *h, struct host_change *c, struct err *e)
{
	const char *entry = buf_str(&c->entry), *nl = strchr(entry, '\n');

	if (h->style == STYLE_TOML && nl)
		(void)err_hint(e, "add it by hand, in a table [%s." NAME "]: %.*s and %.*s",
			       h->section, (int)(nl - entry), entry, (int)strcspn(nl + 1, "\n"),
			       nl + 1);
	else
		(void)err_hint(e, "add it by hand, to '%s': \"" NAME "\": %.180s", h->section,
			       entry);
}

static int host_install_change(const struct mcp_host *h, const char *program, char *const *args,
			       bool dry, struct host_file *f, struct host_change *c, struct err *e)
{
	enum entry_form form = h->style == STYLE_TOML ? ENTRY_TOML : ENTRY_JSON;
	CLEANUP(buf) struct buf out = BUF_INIT(FILE_MAX + (1 << 20));
	char backup[NAME_MAX + 1];
	int r;

	if (args)
		host_install_put_entry(h, program, args, &c->entry);
	r = args ? entry_put(form, buf_str(&f->text), f->text.len, h->section, NAME,
			     buf_str(&c->entry), &out, e)
		 : entry_cut(form, buf_str(&f->text), f->text.len, h->section, NAME, &out, e);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && args)
		by_hand(h, c, e);
	if (r < 0)
		return err_wrap(e, "'%s'", c->path);
	if (out.failed || c->entry.failed)
		return err_nomem(e);
	if (f->name && strlen(f->name) + 16 > sizeof(backup))
		return err_set(e, ERR_CONFIG, ENAMETOOLONG, "the name of the file is too long");
	(void)snprintf(backup, sizeof(backup), "%.*s.brig-backup", NAME_MAX - 16,
		       f->name ? f->name : "");
	if (!args)
		undo(h, f, backup, &out, c);
	c->changes = !same_text(&out, &f->text);
	(void)snprintf(c->backup, sizeof(c->backup), "%.*s.brig-backup", PATH_MAX - 16, c->path);
	if (dry || !c->changes)
		return 0;
	if (c->removes)
		return host_install_remove(f, e);
	if (c->there && !c->restores && host_install_put_file(f, backup, &f->text, NULL, e) < 0)
		return -e->code;
	if (host_install_put_file(f, f->name, &out, &c->there, e) < 0)
		return -e->code;
	if (c->restores)
		(void)unlinkat(f->folder, backup, 0);
	return 0;
}

int host_install(const struct mcp_host *h, const char *home, const char *config,
		 const char *program, char *const *args, bool dry, struct host_change *ret,
		 struct err *e)
{
	struct host_file f = { .folder = -1, .text = BUF_INIT(FILE_MAX) };
	int r;

	*ret = (struct host_change){ .entry = BUF_INIT(1 << 16) };
	r = find_file(h, home, config, args, ret, e);
	/* A file that is not there needs no folder to be shown what would be in it. */
	if (r == 0 && (ret->there || (args && !dry)))
		r = host_install_open_folder(h, ret, &f, e);
	if (r == 0)
		r = read_file_text(ret, &f, e);
	if (r == 0)
		r = host_install_change(h, program, args, dry, &f, ret, e);
	(void)fd_close(f.folder);
	buf_done(&f.text);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/kit/packages/packages_make.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/kit/packages/packages.h"
#include "backend/kit/packages/packages_copy.h"
#include "backend/kit/plan/plan_internal.h"
#include "base/bytes/md5.h"
#include "base/bytes/random.h"
#include "base/files/draft.h"
#include "base/files/folder.h"
#include "base/files/tree.h"
#include "base/text/str.h"
#include "model/settings/spec.h"

#define ARENA_MAX ((size_t)64 << 20)
#define STATUS_MAX ((size_t)64 << 20)
#define FILE_MAX ((size_t)8 << 20) /* office has tables of two */
#define COPIES_MAX ((size_t)64 << 20)
#define LIVE_COPY ((uint64_t)512 << 10)

#define NAMES_MAX ((size_t)8 << 10) /* of the packages of one entry */

enum { LIVE_ENTRIES = 50000, LIVE_DEPTH = 32, KEPT_DAYS = 7, FEW_OF_SYS = 8 };

/* Of the boot, of logins, of the package manager, of devices and of services that nobody starts
 * inside: no program there asks for them, and each name costs every start a little. The
 * alternatives are shown as they are. */
static const char *const needless[] = {
	"NetworkManager",
	"PackageKit",
	"adduser.conf",
	"alternatives",
	"apache2",
	"apparmor.d",
	"appstream.conf",
	"apt",
	"bindresvport.blacklist",
	"ca-certificates",
	"cni",
	"containerd",
	"containers",
	"cron.d",
	"cron.daily",
	"cron.hourly",
	"cron.monthly",
	"cron.weekly",
	"dbus-1",
	"debconf.conf",
	"default",
	"deluser.conf",
	"dhcp",
	"dnf",
	"docker",
	"e2scrub.conf",
	"environment.d",
	"ethertypes",
	"init.d",
	"insserv.conf.d",
	"issue",
	"issue.net",
	"kernel",
	"ld.so.conf",
	"ld.so.conf.d",
	"libaudit.conf",
	"libpaper.d",
	"lighttpd",
	"logcheck",
	"login.defs",
	"logrotate.d",
	"mke2fs.conf",
	"modprobe.d",
	"modules-load.d",
	"netconfig",
	"network",
	"nftables.conf",
	"pam.conf",
	"pam.d",
	"polkit-1",
	"ppp",
	"rc.d",
	"rmt",
	"rsyslog.d",
	"runit",
	"security",
	"selinux",
	"sensors.d",
	"sensors3.conf",
	"skel",
	"sudoers.d",
	"sv",
	"sysconfig",
	"sysctl.conf",
	"sysctl.d",
	"systemd",
	"ucf.conf",
	"udev",
	"ufw",
	"update-motd.d",
	"yum",
	"yum.repos.d",
	"zypp",
};

/* Only a person misses them. */
static const char *const at_terminal[] = {
	"bash.bashrc", "bash_completion", "bash_completion.d", "fish",
	"inputrc",     "nanorc",          "screenrc",          "vim",
	"zsh",
};

/* What packages' scripts make out of packages, for everybody. Nobody else writes there. */
static const char *const live[] = {
	"/etc/dictionaries-common",
	"/etc/sgml",
	"/etc/xml",
	"/var/cache/dictionaries-common",
	"/var/cache/fontconfig",
	"/var/lib/aspell",
	"/var/lib/dictionaries-common",
	"/var/lib/gems",
	"/var/lib/ghc",
	"/var/lib/ghostscript",
	"/var/lib/ispell",
	"/var/lib/libreoffice",
	"/var/lib/mecab",
	"/var/lib/sgml-base",
	"/var/lib/texmf",
	"/var/lib/units",
	"/var/lib/xml-core",
};

/* The same below /etc, file by file: names that begin like that, without a login in their text. */
static const struct {
	const char *folder, *name;
} made[] = {
	{ "/etc", "fpc-" },
	{ "/etc", "mailcap" },
	{ "/etc/texmf/web2c", "texmf.cnf" },
};

/* /etc/NAME, /var/lib/NAME or /var/cache/NAME, of what lies in it. */
static size_t top_length(const char *path)
{
	size_t base = str_starts(path, "/etc/")       ? strlen("/etc/")
		      : str_starts(path, "/var/lib/") ? strlen("/var/lib/")
						      : strlen("/var/cache/");

	return base + strcspn(path + base, "/");
}

static bool is_one_of(const char *path, const char *const *names, size_t n)
{
	size_t base = strlen("/etc/");

	for (size_t i = 0; str_starts(path, "/etc/") && i < n; i++)
		if (top_length(path) - base == strlen(names[i]) &&
		    memcmp(path + base, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool is_needless(const char *path)
{
	return is_one_of(path, needless, ARRAY_LEN(needless));
}

static bool in_live(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(live); i++)
		if (path_under(path, live[i]))
			return true;
	return false;
}

/* Who may not pass a folder may not read what is in it; and whoever may write there is not root. */
static bool folder_fine(struct copier *m, const char *path)
{
	size_t n = (size_t)(strrchr(path, '/') - path);
	struct stat st;

	if (n >= sizeof(m->folder))
		return false;
	if (strlen(m->folder) == n && memcmp(m->folder, path, n) == 0)
		return m->folder_fine;
	memcpy(m->folder, path, n);
	m->folder[n] = '\0';
	m->folder_fine = true;
	for (char *end = m->folder; end && m->folder_fine;) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		m->folder_fine =
			lstat(m->folder, &st) == 0 && S_ISDIR(st.st_mode) && etc_for_everybody(&st);
		if (end)
			*end = '/';
	}
	if (strlen(path) > top_length(path)) /* /etc itself changes daily */
		packages_seen(&m->seen, m->folder);
	return m->folder_fine;
}

/* A file's text into m->file; false: it is not for everybody, or there is none. */
static bool read_public(struct copier *m, const char *path, struct stat *st)
{
	CLEANUP(fd) int fd = -1;

	if (m->seen.len > PACKAGES_SEEN - 4 * (size_t)PATH_MAX)
		return false; /* what is not compared later is not shown */
	packages_seen(&m->seen, path);
	if (!folder_fine(m, path))
		return false;
	fd = fd_open_nolinks(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode) || !etc_for_everybody(st) ||
	    st->st_size > (off_t)FILE_MAX || m->files == FILES_MAX ||
	    m->bytes + (size_t)st->st_size > COPIES_MAX)
		return false;
	m->file.len = 0;
	m->file.failed = false;
	return buf_read_file(&m->file, fd) == 0;
}

/* The folders above path in the copy. Whoever is inside, as whomever, may pass. */
static int make_folders(const struct copier *m, const char *path)
{
	char part[PATH_MAX];

	for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(at - path - 1), path + 1);
		if (mkdirat(m->tree, part, 0755) == 0) {
			if (fchmodat(m->tree, part, 0755, 0) < 0)
				return -errno;
		} else if (errno != EEXIST) {
			return -errno;
		}
	}
	return 0;
}

/* What was read, at the same path in the copy. */
int packages_write(struct copier *m, const char *path, const struct stat *st)
{
	CLEANUP(fd) int fd = -1;
	int r = make_folders(m, path);

	if (r < 0)
		return r;
	fd = openat(m->tree, path + 1, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	m->files++;
	m->bytes += m->file.len;
	r = fd_write_all(fd, m->file.data, m->file.len);
	if (r == 0 && fchmod(fd, st->st_mode & S_IXOTH ? 0755 : 0644) < 0)
		r = -errno;
	return r;
}

/* A line of the list, which stays one that its reader takes: what finds no room is not shown. */
static void add_entry(struct copier *m, char kind, const char *path, size_t n, const char *packages)
{
	char place[PATH_MAX];

	(void)snprintf(place, sizeof(place), PACKAGES_PLACE "%.*s", (int)n, path);
	if (m->entries == PACKAGES_ENTRIES - FEW_OF_SYS || str_has_control(place) ||
	    m->list.len + strlen(place) + strlen(packages) + FEW_OF_SYS * NAME_MAX > PACKAGES_LIST)
		return;
	m->entries++;
	buf_printf(&m->list, "%c %s\t%s\n", kind, place, packages);
}

/* The entry that ends here. */
static void end_top(struct copier *m)
{
	if (m->top)
		add_entry(m, 'c', m->top, top_length(m->top), buf_str(&m->packages));
	m->top = NULL;
	m->packages.len = 0;
}

static void note_top(struct copier *m, const char *path, const char *package)
{
	size_t n = top_length(path);
	const char *at;

	if (m->top && (top_length(m->top) != n || memcmp(m->top, path, n) != 0))
		end_top(m);
	m->top = path;
	at = strstr(buf_str(&m->packages), package);
	if (!*package || m->packages.len + strlen(package) > NAMES_MAX ||
	    (at && (at[strlen(package)] == ' ' || !at[strlen(package)])))
		return;
	buf_printf(&m->packages, "%s%s", m->packages.len ? " " : "", package);
}

static bool is_as_shipped(const struct buf *file, const char *as)
{
	char sum[SHA256_HEX];

	if (strlen(as) == MD5_HEX - 1)
		md5_of(file->data, file->len, sum);
	else
		sha256_of(file->data, file->len, sum);
	return str_eq(sum, as);
}

static int copy_shipped(struct copier *m)
{
	struct stat st;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->shipped.n; i++) {
		const struct shipped_file *f = &m->shipped.v[i];

		if (is_needless(f->path) || in_live(f->path) || !read_public(m, f->path, &st) ||
		    !is_as_shipped(&m->file, f->sum))
			continue;
		r = packages_write(m, f->path, &st);
		note_top(m, f->path, f->package);
	}
	end_top(m);
	return r;
}

/* An entry of its own, unless a shipped file made it one. */
static void note_alone(struct copier *m, const char *path)
{
	char line[PATH_MAX];

	(void)snprintf(line, sizeof(line), "c " PACKAGES_PLACE "%.*s\t", (int)top_length(path),
		       path);
	if (!strstr(buf_str(&m->list), line))
		add_entry(m, 'c', path, top_length(path), "");
}

static int copy_made(struct copier *m, size_t which)
{
	CLEANUP(fd) int fd = open(made[which].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct fd_entry *n;
	char path[PATH_MAX];
	struct folder d;
	struct stat st;
	int r = 0;

	if (fd < 0)
		return 0;
	folder_begin(&d, fd);
	while (r == 0 && (n = folder_next(&d))) {
		if (!str_starts(n->name, made[which].name))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", made[which].folder, n->name);
		if (!read_public(m, path, &st) || memchr(buf_str(&m->file), '\0', m->file.len) ||
		    etc_has_login(buf_str(&m->file)))
			continue;
		r = packages_write(m, path, &st);
		note_alone(m, path);
	}
	return r;
}

/* Where a link leads, by its text, is shown inside as well. */
static bool leads_to_shown(const struct copier *m, const char *goal)
{
	struct stat st;

	return path_under(goal, "/usr") || path_under(goal, "/etc/alternatives") || in_live(goal) ||
	       fstatat(m->tree, goal + 1, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Its text must not depend on where it stands: the copy is elsewhere inside. */
static int copy_link(struct copier *m, int folder, const char *at, const char *name)
{
	struct place from = { .cwd = at };
	char text[PATH_MAX], path[PATH_MAX];
	ssize_t n = readlinkat(folder, name, text, sizeof(text) - 1);
	const char *goal;
	struct err ignored;

	if (n <= 0 || snprintf(path, sizeof(path), "%s/%s", at, name) >= (int)sizeof(path))
		return 0;
	text[n] = '\0';
	if (is_needless(path) || text[0] == '~' ||
	    path_resolve(m->shipped.arena, &from, text, &goal, &ignored) < 0 ||
	    !leads_to_shown(m, goal))
		return 0;
	if (symlinkat(goal, m->tree, path + 1) < 0)
		return errno == EEXIST ? 0 : -errno;
	note_alone(m, path);
	return 0;
}

/* One that holds no file, but perhaps links, in a folder of the copy. */
static bool add_folder(const struct copier *m, const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && etc_for_everybody(&st) &&
	       mkdirat(m->tree, path + 1, 0755) == 0 && fchmodat(m->tree, path + 1, 0755, 0) == 0;
}

static int copy_links(struct copier *m, const char *at, int depth)
{
	CLEANUP(fd) int fd = open(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char below[PATH_MAX];
	const struct fd_entry *n;
	struct folder d;
	struct stat st;
	int r = 0;

	if (fd < 0 || depth == 0)
		return 0;
	folder_begin(&d, fd);
	while (r == 0 && (n = folder_next(&d))) {
		if (n->type == DT_LNK)
			r = copy_link(m, fd, at, n->name);
		if (n->type != DT_DIR ||
		    snprintf(below, sizeof(below), "%s/%s", at, n->name) >= (int)sizeof(below))
			continue;
		if (fstatat(m->tree, below + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
		    (depth < LIVE_DEPTH && add_folder(m, below)))
			r = copy_links(m, below, depth - 1);
	}
	return r;
}

int packages_open(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* All of a tree that scripts made. Its links are copied with all the others. */
static int copy_tree(struct copier *m, const char *at, int depth)
{
	CLEANUP(fd) int fd = packages_open(at);
	char below[PATH_MAX];
	const struct fd_entry *n;
	struct folder d;
	struct stat st;
	int r;

	(void)snprintf(below, sizeof(below), "%s/", at);
	r = make_folders(m, below);
	packages_seen(&m->seen, at);
	folder_begin(&d, fd);
	while (r == 0 && depth > 0 && fd >= 0 && (n = folder_next(&d))) {
		if (snprintf(below, sizeof(below), "%s/%s", at, n->name) >= (int)sizeof(below) - 1)
			continue;
		if (n->type == DT_DIR)
			r = copy_tree(m, below, depth - 1);
		else if (n->type == DT_REG && read_public(m, below, &st))
			r = packages_write(m, below, &st);
	}
	return r;
}

/* A small one costs less as a part of the copy than as a mount. */
static int show_live(struct copier *m, const char *path)
{
	CLEANUP(fd) int fd = folder_fine(m, path) ? packages_open(path) : -1;
	unsigned left = LIVE_ENTRIES;
	uint64_t bytes;
	int r;

	packages_seen(&m->seen, path);
	if (fd < 0 || !etc_folder_for_everybody(packages_open(path), LIVE_DEPTH, NULL, &left))
		return 0;
	if (tree_size(fd, LIVE_COPY, &bytes) < 0 || bytes > LIVE_COPY) {
		add_entry(m, 'l', path, strlen(path), "");
		return 0;
	}
	r = copy_tree(m, path, LIVE_DEPTH);
	note_alone(m, path);
	return r;
}

/* Is everything that the folder holds in the copy as well? */
static bool all_copied(const struct copier *m, const char *at, int depth)
{
	CLEANUP(fd) int fd = packages_open(at);
	bool all = fd >= 0 && depth > 0;
	char below[PATH_MAX];
	const struct fd_entry *n;
	struct folder d;
	struct stat st;

	folder_begin(&d, fd);
	while (all && (n = folder_next(&d)))
		all = snprintf(below, sizeof(below), "%s/%s", at, n->name) < (int)sizeof(below) &&
		      fstatat(m->tree, below + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		      (!S_ISDIR(st.st_mode) || all_copied(m, below, depth - 1));
	return all;
}

/* What is copied as a whole needs no mount, whatever other rule would show it. */
static void mark_whole(struct copier *m)
{
	char path[PATH_MAX];
	struct stat st;

	for (char *line = m->list.data; line && (line = strchr(line, '\n')) && line[1];) {
		const char *at = ++line + strlen("c " PACKAGES_PLACE);

		if (*line != 'c')
			continue;
		(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(at, "\t"), at);
		if (lstat(path, &st) == 0 &&
		    (S_ISREG(st.st_mode) ||
		     (S_ISDIR(st.st_mode) && all_copied(m, path, LIVE_DEPTH))))
			*line = 'w';
		if (is_one_of(path, at_terminal, ARRAY_LEN(at_terminal)))
			line[1] = 't';
	}
}

static int packages_make_read_whole(const char *path, struct buf *b)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : buf_read_file(b, fd);
}

static int read_dpkg(struct shipped *s)
{
	CLEANUP(buf) struct buf status = BUF_INIT(STATUS_MAX);
	CLEANUP(buf) struct buf sums = BUF_INIT(STATUS_MAX);
	CLEANUP(buf) struct buf registry = BUF_INIT(STATUS_MAX);
	int r = packages_make_read_whole(DPKG_STATUS, &status);

	if (r == 0)
		r = shipped_status(s, status.data, status.len);
	if (r == 0 && packages_make_read_whole(UCF_SUMS, &sums) == 0 &&
	    packages_make_read_whole(UCF_REGISTRY, &registry) == 0)
		r = shipped_ucf(s, buf_str(&registry), sums.data, sums.len);
	return r;
}

/* A database that does not answer, or is too large, vouches for nothing, and is asked again when
 * the copy is compared. */
static void read_database(struct copier *m)
{
	int r = access(DPKG_STATUS, F_OK) == 0 ? read_dpkg(&m->shipped) : packages_rpm(&m->shipped);

	if (r < 0) {
		m->shipped.n = 0;
		buf_puts(&m->seen, "unheard " DPKG_STATUS "\n");
	}
	shipped_sort(&m->shipped);
}

static int packages_make_fill(struct copier *m)
{
	int r;

	read_database(m);
	r = copy_shipped(m);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(made); i++)
		r = copy_made(m, i);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(live); i++)
		r = show_live(m, live[i]);
	if (r == 0)
		r = copy_links(m, "/etc", LIVE_DEPTH);
	if (r == 0)
		r = copy_links(m, "/var/lib", LIVE_DEPTH);
	if (r == 0 && !m->list.failed)
		mark_whole(m);
	if (r == 0)
		r = packages_sys(m);
	return r < 0 ? r : m->list.failed || m->seen.failed || m->packages.failed ? -ENOMEM : 0;
}

/* Runs may still show the one that is replaced now; those of long ago nobody shows. */
static void remove_old(int folder, const char *keep)
{
	const struct fd_entry *n;
	struct folder d;
	struct stat st;
	char text[PATH_MAX];

	if (fd_read_file(folder, "now", text, sizeof(text)) < 0)
		text[0] = '\0';
	(void)lseek(folder, 0, SEEK_SET);
	folder_begin(&d, folder);
	while ((n = folder_next(&d))) {
		if (str_eq(n->name, keep) ||
		    fstatat(folder, n->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			continue;
		if (strstr(text, n->name))
			(void)utimensat(folder, n->name, NULL, AT_SYMLINK_NOFOLLOW);
		else if (time(NULL) - st.st_mtime > (time_t)KEPT_DAYS * 24 * 60 * 60)
			(void)tree_remove(folder, n->name);
	}
}

static int make_in(struct copier *m, int folder, const char *id)
{
	CLEANUP(fd) int own = openat(folder, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (own < 0 || mkdirat(own, "tree", 0755) < 0)
		return -errno;
	m->tree = openat(own, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (m->tree < 0 || fchmod(m->tree, 0755) < 0)
		return -errno;
	r = packages_make_fill(m);
	return r < 0 ? r : draft_write(own, "seen", &m->seen, 0600, false);
}

bool packages_live(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(live); i++)
		if (str_eq(path, live[i]))
			return true;
	return false;
}

int packages_make(int folder, const char *version, const char *stamp)
{
	CLEANUP(arena) struct arena *a = arena_new(ARENA_MAX);
	struct copier m = { .shipped.arena = a,
			    .tree = -1,
			    .list = BUF_INIT(PACKAGES_LIST),
			    .seen = BUF_INIT(PACKAGES_SEEN),
			    .file = BUF_INIT(FILE_MAX + 1),
			    .packages = BUF_INIT(2 * NAMES_MAX) };
	char id[PACKAGES_ID + 1];
	struct err ignored;
	int r;

	if (!a || random_hex(id, sizeof(id), &ignored) < 0 || mkdirat(folder, id, 0700) < 0)
		return -ENOMEM;
	buf_printf(&m.list, "%s\n%s\n%s\n", version, stamp, id);
	r = make_in(&m, folder, id);
	if (r == 0) {
		remove_old(folder, id);
		r = draft_write(folder, "now", &m.list, 0600, false);
	}
	if (r < 0)
		(void)tree_remove(folder, id);
	(void)fd_close(m.tree);
	buf_done(&m.list);
	buf_done(&m.seen);
	buf_done(&m.file);
	buf_done(&m.packages);
	return r;
}

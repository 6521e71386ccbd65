/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/explain.h"

#include <ctype.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "backend/kit/survey/protected_names.h"
#include "backend/backend.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "model/settings/groups.h"
#include "model/settings/paths.h"

#define PLAIN_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/"

enum { TRIES_MAX = 64 };

/* How programs say that a name could not be found or a host not reached. */
static const char *const no_network[] = {
	"name resolution",        /* glibc, and what passes its words on */
	"Could not resolve host", /* curl, git */
	"unable to resolve host", /* wget */
	"could not be resolved",  /* nginx and its like */
	"Name or service not known",
	"NameResolutionError",            /* urllib3 */
	"UnknownHostException",           /* Java */
	"failed to lookup address",       /* Rust */
	"getaddrinfo",                    /* Node, Ruby, PHP */
	"No matching distribution found", /* pip, when it is told not to try again */
	"EAI_AGAIN",
	"ENOTFOUND",
	"dial tcp", /* Go */
	"dial udp",
	"Network is unreachable",
	"ENETUNREACH",
};

/* How they say that a file is not theirs to change. */
static const char *const no_change[] = {
	"Device or resource busy",
	"Read-only file system",
	"Permission denied",
	"Operation not permitted",
	"File exists",
	"Not a directory",
	"No such device or address",
	"would be overwritten by", /* git, of what holds a name that is missing */
	"EBUSY",
	"EROFS",
	"EACCES",
	"EPERM",
	"EEXIST",
	"ENOTDIR",
	"ENXIO",
};

/* How they say that one is not there. */
static const char *const not_there[] = {
	"No such file or directory", "ENOENT",      "not found",
	"NoSuchFileException",       "cannot find", "cannot open",
};

/* How they say that a mode was refused; with set-id bits nothing else has that reason. */
static const char *const no_mode[] = {
	"changing permissions of",    /* chmod */
	"cannot change permissions ", /* install, mkdir */
	"preserving permissions for", /* cp -a */
	"Cannot change mode to",      /* tar */
};

/* Where a root of brig's own has a part of what the host has. */
static const char *const partly_shown[] = { "/etc/", "/var/lib/", "/var/cache/" };

/* In a git folder; those of the workspace are in guarded_names. */
static const char *const git_names[] = {
	".git/config.worktree", ".git/config",  ".git/hooks",
	".git/info/attributes", ".git/modules", ".git/worktrees",
};

#define SCREEN_FOLDER                                                                              \
	"screen cannot keep its sockets in /run/screen: --env SCREENDIR=/tmp/screen gives it "     \
	"another folder"
#define NO_ROOT                                                                                    \
	"nobody becomes root inside: install what is needed on the host, or run in an image that " \
	"has it (--backend docker --image NAME)"
#define NO_NAMESPACES                                                                              \
	"no program makes namespaces inside: switch its own sandbox off (--no-sandbox of a "       \
	"browser); brig's is around all of it"
#define NO_ENGINE                                                                                  \
	"services of the host are not reached from inside: call docker and podman outside of brig"
#define NO_SERVICES                                                                                \
	"no service manager runs inside: start the program itself, or make it a companion of a "   \
	"sandbox (brig-sandbox.1)"
#define NO_MOUNTS                                                                                  \
	"nothing can be mounted inside: -v SOURCE:PATH shows a folder of the host there, and "     \
	"/tmp is a tmpfs already"
#define NOT_EMPTY                                                                                  \
	"protected names that are missing are held inside, so the workspace is never empty: "      \
	"clone into a new folder in it, or outside of the sandbox"
#define NO_PACKAGES                                                                                \
	"apt and dpkg know no package inside, the host's list of them is not shown: install what " \
	"is missing on the host, or run in an image that has it (--backend docker --image NAME)"
#define NO_GEMS                                                                                    \
	"the folder of the system's gems is root's, as outside: bundle config set --local path "   \
	"vendor/bundle keeps them in the workspace, gem install --user-install in HOME"

#define NO_PING                                                                                    \
	"nobody has raw sockets inside, so ping does not work: curl or nc tell whether a host "    \
	"answers, with --allow HOST"
#define NO_OTHERS                                                                                  \
	"other users and groups of the host are not known inside: give files to them, by chown "   \
	"or in ACLs, outside of the sandbox"
#define NO_SETID                                                                                   \
	"set-id bits (chmod u+s, g+s) cannot be set inside, nor copied: set them outside of the "  \
	"sandbox"
#define OWN_CONFIG ", or use git config --global, which is the sandbox's own"
#define NO_CORE                                                                                    \
	"no core files are written inside: gdb -batch -ex run -ex bt --args COMMAND shows where "  \
	"it failed"

#define NO_WHATIS                                                                                  \
	"whatis and apropos look into /var/cache/man, which is not shown inside: --read "          \
	"/var/cache/man shows it"

#define NO_RENAME                                                                                  \
	"what is protected in the workspace (.gitattributes, .envrc and their kind, where they "   \
	"are) cannot be replaced inside: change it outside of the sandbox"
#define NO_MOVE                                                                                    \
	"the folder of the workspace cannot be moved or removed inside, only what is in it: do "   \
	"that outside of the sandbox"
#define NO_ROOM                                                                                    \
	"/tmp, HOME and /dev/shm are in memory, with limits.tmp for all of them: "                 \
	"--set limits.tmp=2g makes room"

static const char no_files[] =
	"a process may have limits.files open at a time, 4096 if nothing else is set, and never "
	"more than your own ulimit -Hn: --set limits.files=20000 allows more";
#define NO_FILTER                                                                                  \
	"filters in your own git settings are not carried inside, but for those of Git LFS: set "  \
	"it in the repository, outside (git config --local filter.NAME.clean ...)"
#define NO_SIGNING                                                                                 \
	"keys that sign commits stay outside: --ssh-agent lends yours where gpg.format is ssh, "   \
	"or git -c commit.gpgsign=false commit"

/* git writes configurations that are covered. The file is named, too: this says more. */
#define SUBMODULES                                                                                 \
	"git submodule init, update and sync write protected configurations: call them outside "   \
	"of the sandbox; inside, git -C SUBMODULE checkout COMMIT works where it was fetched"
#define SPARSE                                                                                     \
	"git sparse-checkout writes protected settings once: call git sparse-checkout "            \
	"init outside of the sandbox; set, add and reapply then work inside"
#define WORKTREE                                                                                   \
	"the work tree's files are gone, its place in the repository is protected: git worktree "  \
	"prune, outside of the sandbox, removes that"

static const struct {
	const char *phrase, *line;
} by_git[] = {
	{ "Failed to register url for submodule", SUBMODULES },
	{ "could not set 'core.worktree'", SUBMODULES },
	{ "failed to initialize worktree config", SPARSE },
	{ "could not write config file .git/config.worktree", SPARSE },
	{ "failed to delete '.git/worktrees/", WORKTREE },
};

/* Bundler names it in its complaint, not in the calls that led there. */
#define SYSTEM_GEMS "`/.packages/var/lib/gems/"

/* What programs say that want more than anybody has inside. */
static const struct {
	const char *phrase, *line;
} refused[] = {
	{ "su: Critical error", NO_ROOT },
	{ "su: Authentication failure", NO_ROOT },
	{ "su: cannot set groups", NO_ROOT },
	{ "no new privileges", NO_ROOT }, /* sudo */
	{ "effective uid is not 0", NO_ROOT },
	{ "Unable to locate package", NO_PACKAGES },
	{ "/var/lib/dpkg/lock", NO_PACKAGES },
	{ "dpkg-query: ", NO_PACKAGES },
	{ "update-alternatives: error: no alternatives", NO_PACKAGES },
	{ "/etc/apt/sources.list", NO_PACKAGES },
	{ SYSTEM_GEMS, NO_GEMS },
	{ "permissions for the /.packages/var/lib/gems/", NO_GEMS }, /* gem */
	{ "No permissions to create new namespace", NO_NAMESPACES }, /* bubblewrap */
	{ "No usable sandbox", NO_NAMESPACES },                      /* browsers */
	{ "unshare failed", NO_NAMESPACES },
	{ "user namespaces are not enabled", NO_NAMESPACES }, /* podman */
	{ "Cannot connect to the Docker daemon", NO_ENGINE },
	{ "Cannot connect to Podman", NO_ENGINE },
	{ "not been booted with systemd", NO_SERVICES }, /* systemctl */
	{ "must be superuser to use mount", NO_MOUNTS },
	{ "destination path '.' already exists", NOT_EMPTY }, /* git clone */
	{ "ping: socktype", NO_PING },                        /* iputils */
	{ "ping: socket", NO_PING },
	{ "ping: prctl", NO_PING }, /* where it had the right by its file */
	{ "cap_net_raw", NO_PING },
	{ "Lacking privilege for icmp socket", NO_PING }, /* inetutils */
	{ "permission denied (are you root?)", NO_PING }, /* busybox */
	{ "failed to sign the data", NO_SIGNING },        /* git */
	{ "Couldn't load public key", NO_SIGNING },       /* ... where gpg.format is ssh */
	{ " writable by group", NO_SETID },               /* git init --shared */
	{ "invalid user", NO_OTHERS },                    /* chown, install */
	{ "invalid group", NO_OTHERS },
	{ "Invalid argument near character", NO_OTHERS },   /* setfacl */
	{ "core file size: cannot modify limit", NO_CORE }, /* ulimit -c */
	{ ": nothing appropriate.", NO_WHATIS },
	{ "Too many open files", no_files },
	{ "EMFILE", no_files },          /* Node */
	{ "clean filter '", NO_FILTER }, /* git */
	{ "smudge filter ", NO_FILTER },
	{ "sed: cannot rename ", NO_RENAME }, /* sed -i names its draft alone */
};

struct words {
	const char *text;
	size_t n;
};

static const char *found(struct words w, const char *what)
{
	return memmem(w.text, w.n, what, strlen(what));
}

/* An error as libc words it: Go and zsh begin it with a small letter. */
static bool explain_says(struct words w, const char *phrase)
{
	char small[64];

	if (found(w, phrase))
		return true;
	(void)snprintf(small, sizeof(small), "%s", phrase);
	small[0] = (char)tolower((unsigned char)small[0]);
	return strlen(phrase) < sizeof(small) && found(w, small);
}

static bool any(struct words w, const char *const *phrases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (explain_says(w, phrases[i]))
			return true;
	return false;
}

static bool goes_on(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

static bool ends_with(const char *from, const char *end, const char *what)
{
	size_t n = strlen(what);

	return (size_t)(end - from) >= n && memcmp(end - n, what, n) == 0;
}

/* Is what stands before a name no folder but the workspace? */
static bool at_top(const char *from, const char *at, const char *workspace)
{
	if (at == from || at[-1] != '/')
		return true;
	at--;
	if (workspace && ends_with(from, at, workspace))
		return true;
	if (ends_with(from, at, WORKSPACE_PLACE))
		return true;
	return ends_with(from, at, ".") && (at - from == 1 || (!goes_on(at[-2]) && at[-2] != '/'));
}

/* A name as a whole: "/x/.envrc:", not ".envrc.example"; with `top` not in another folder than the
 * workspace. */
static bool named_in(struct words w, const char *name, bool top, const char *workspace)
{
	const char *from = w.text;
	size_t m = strlen(name);

	for (const char *at; (at = found(w, name));
	     w.n -= (size_t)(at + 1 - w.text), w.text = at + 1) {
		size_t left = w.n - (size_t)(at - w.text);
		bool begins = at == from || !goes_on(at[-1]);

		if (begins && (left == m || !goes_on(at[m])) &&
		    (!top || at_top(from, at, workspace)))
			return true;
	}
	return false;
}

static bool explain_named(struct words w, const char *name)
{
	return named_in(w, name, false, NULL);
}

/* The group of a host that is named, so that the line can be typed as it stands. */
static const struct group *group_named(struct words w)
{
	for (size_t i = 0; i < GROUP_COUNT; i++)
		for (size_t k = 0; groups[i].hosts[k]; k++) {
			const char *host = groups[i].hosts[k];

			if (found(w, str_starts(host, "*.") ? host + 2 : host))
				return &groups[i];
		}
	return NULL;
}

static void about_network(const struct spec *s, struct words w, struct outcome *o)
{
	const struct group *g;

	if (s->network != NETWORK_NONE || o->asked_count ||
	    !any(w, no_network, ARRAY_LEN(no_network)))
		return;
	g = group_named(w);
	outcome_hint(o,
		     g ? arena_printf(o->arena, "it had no network; --allow @%s opens one for %s",
				      g->name, g->help)
		       : "it had no network; --allow HOST or @GROUP opens one for the hosts that "
			 "it needs");
}

/* The next protected name that is named, from *at on; NULL: none. */
static const char *guarded(const struct spec *s, struct words w, size_t *at)
{
	while (*at < ARRAY_LEN(git_names) + guarded_name_count) {
		size_t i = (*at)++;

		if (i < ARRAY_LEN(git_names)) {
			if (explain_named(w, git_names[i]))
				return git_names[i];
			continue;
		}
		i -= ARRAY_LEN(git_names);
		if (guarded_names[i].class <= NAME_TAKEN &&
		    named_in(w, guarded_names[i].name, true, s->inside))
			return guarded_names[i].name;
	}
	return NULL;
}

/* Each that is named in a line with such words is a denial. */
static void deny_covered(const struct spec *s, struct words w, struct outcome *o)
{
	while (w.n) {
		const char *end = memchr(w.text, '\n', w.n), *name;
		struct words line = { w.text, end ? (size_t)(end - w.text) : w.n };
		size_t at = 0, past = line.n + (end ? 1 : 0);

		if (any(line, no_change, ARRAY_LEN(no_change)))
			while ((name = guarded(s, line, &at)))
				outcome_covered(o, name);
		w = (struct words){ w.text + past, w.n - past };
	}
}

/* A file system of its own: what it lacks there may be brig's doing. */
static bool has_root(const struct outcome *o)
{
	return o->isolation && o->isolation->mount_ns;
}

/* More than that a file is protected; NULL: nothing. */
static const char *git_said(struct words w)
{
	for (size_t i = 0; i < ARRAY_LEN(by_git); i++)
		if (found(w, by_git[i].phrase))
			return by_git[i].line;
	return NULL;
}

/* "cannot move '/work' to ...: Device or resource busy" */
static bool moves_workspace(const struct spec *s, struct words w)
{
	char quoted[PATH_MAX + 2];

	return s->inside && explain_says(w, "Device or resource busy") &&
	       snprintf(quoted, sizeof(quoted), "'%s'", s->inside) < (int)sizeof(quoted) &&
	       found(w, quoted);
}

static void about_files(const struct spec *s, struct words w, struct outcome *o)
{
	const char *name;
	size_t at = 0;

	if (!has_root(o) || !any(w, no_change, ARRAY_LEN(no_change)))
		return;
	if (explain_named(w, "/run/screen")) { /* of a shell that began it */
		if (!o->hint_count)
			outcome_hint(o, SCREEN_FOLDER);
		return;
	}
	if (found(w, SYSTEM_GEMS)) /* about_rights() says more */
		return;
	if (s->policy == POLICY_READONLY && explain_says(w, "Read-only file system")) {
		outcome_hint(o, "under policy readonly it may change nothing but /tmp and HOME");
		return;
	}
	name = s->policy == POLICY_WORKSPACE_WRITE && !spec_has_layer(s) ? guarded(s, w, &at)
									 : NULL;
	if (name)
		deny_covered(s, w, o);
	if (name && git_said(w))
		outcome_hint(o, git_said(w));
	else if (!name && moves_workspace(s, w))
		outcome_hint(o, NO_MOVE);
	else if (name)
		outcome_hint(
			o,
			arena_printf(
				o->arena,
				"'%s' is protected in the workspace, because programs on the host "
				"obey it: change it outside of the sandbox%s",
				name, str_eq(name, ".git/config") ? OWN_CONFIG : ""));
	else if (s->policy == POLICY_WORKSPACE_WRITE &&
		 (explain_says(w, "Read-only file system") || found(w, "EROFS")))
		outcome_hint(
			o,
			"it may write in /tmp, HOME and the workspace, but for protected names and "
			"settings that you allowed; --write FOLDER adds another folder");
}

/* An overlay cannot do all that a folder can. */
static void about_layer(const struct spec *s, struct words w, struct outcome *o)
{
	if (!spec_has_layer(s))
		return;
	if (explain_says(w, "Value too large for defined data type"))
		outcome_hint(o, "in an overlay workspace what belongs to another group or user "
				"cannot be changed: take --workspace direct");
	else if (explain_says(w, "Invalid cross-device link") || found(w, "EXDEV"))
		outcome_hint(o, "in an overlay workspace folders that were there before cannot be "
				"renamed, only copied: take --workspace direct");
}

static bool shown(const struct spec *s, const char *path)
{
	for (size_t i = 0; i < s->read.n; i++)
		if (path_under(path, s->read.v[i]))
			return true;
	return false;
}

/* An image has an /etc of its own, and may have what the host's programs lack. */
static bool in_image(const struct outcome *o)
{
	const struct backend *b = o->backend ? backend_by_name(o->backend) : NULL;

	return b && b->can & BACKEND_ENGINE;
}

/* What everybody on the host may read, over all folders above it: whoever chose the path gets the
 * user to show no more than that. */
static bool for_everybody(const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	for (const char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		if (stat(part, &st) < 0 || !(st.st_mode & S_IXOTH))
			return false;
	}
	return stat(path, &st) == 0 && st.st_uid == 0 && st.st_mode & S_IROTH &&
	       (S_ISREG(st.st_mode) || (S_ISDIR(st.st_mode) && st.st_mode & S_IXOTH));
}

/* The path that begins at `at`, as the host has it, where links lead; NULL: none that could be
 * shown. Only letters that mean nothing to a shell count. */
static const char *unshown(const struct spec *s, struct words w, const char *at, struct arena *a)
{
	char path[PATH_MAX], real[PATH_MAX];
	size_t n = 0, left = w.n - (size_t)(at - w.text);

	while (n < left && n < sizeof(path) - 1 && (goes_on(at[n]) || at[n] == '/' || at[n] == '+'))
		n++;
	while (n && (at[n - 1] == '.' || at[n - 1] == '/')) /* of the sentence */
		n--;
	memcpy(path, at, n);
	path[n] = '\0';
	if (!realpath(path, real) || shown(s, real) || !for_everybody(real))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(partly_shown); i++)
		if (str_starts(real, partly_shown[i]) &&
		    strspn(real, PLAIN_LETTERS) == strlen(real))
			return arena_strdup(a, real);
	return NULL;
}

static void about_etc(const struct spec *s, struct words w, struct outcome *o)
{
	int tries = 0;

	if (!has_root(o) || in_image(o) || !any(w, not_there, ARRAY_LEN(not_there)))
		return;
	for (size_t i = 0; i < ARRAY_LEN(partly_shown); i++) {
		struct words rest = w;

		for (const char *at; tries < TRIES_MAX && (at = found(rest, partly_shown[i]));
		     rest.n -= (size_t)(at + 1 - rest.text), rest.text = at + 1, tries++) {
			bool begins = at == w.text || (!goes_on(at[-1]) && at[-1] != '/');
			const char *path = begins ? unshown(s, w, at, o->arena) : NULL;

			if (!path)
				continue;
			outcome_hint(
				o,
				arena_printf(
					o->arena,
					"the host's '%s' is not shown inside; --read %s shows it",
					path, path));
			return;
		}
	}
}

/* What is asked for beyond the caller's own limit is not to be had. */
static const char *about_open_files(const struct spec *s, struct arena *a)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || s->limits.files < r.rlim_max)
		return no_files;
	return arena_printf(
		a,
		"your own hard limit allows a process no more than %llu open files (ulimit "
		"-Hn), and limits.files cannot go beyond: root raises it, by a line "
		"'* hard nofile 65536' in /etc/security/limits.conf and a new login, "
		"LimitNOFILE= of a unit, or --ulimit nofile=65536 of a container",
		(unsigned long long)r.rlim_max);
}

static void about_rights(const struct spec *s, struct words w, struct outcome *o)
{
	if (!has_root(o) || in_image(o))
		return;
	if (found(w, "/dev/shm") &&
	    (explain_says(w, "No space left on device") || found(w, "ENOSPC"))) {
		outcome_hint(o, NO_ROOM);
		return;
	}
	if (s->profile != PROFILE_DEBUG && found(w, "No permission to enable") &&
	    found(w, " event")) {
		outcome_hint(o, "--profile debug lets perf count what runs inside");
		return;
	}
	if (any(w, no_mode, ARRAY_LEN(no_mode)) && explain_says(w, "Operation not permitted")) {
		outcome_hint(o, NO_SETID);
		return;
	}
	/* Ids that nobody has inside. */
	if ((found(w, "changing ownership of") || found(w, "changing group of")) &&
	    explain_says(w, "Invalid argument")) {
		outcome_hint(o, NO_OTHERS);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (explain_says(w, refused[i].phrase)) {
			outcome_hint(o, refused[i].line == no_files ? about_open_files(s, o->arena)
								    : refused[i].line);
			return;
		}
}

/* A shell says 128 more. */
static int died_of(const struct outcome *o)
{
	if (o->kind == OUTCOME_SIGNALLED)
		return o->signal;
	return o->exit_code > 128 ? o->exit_code - 128 : 0;
}

/* Only to whom a core would be written outside. */
static void about_core(struct outcome *o)
{
	struct rlimit core;
	int sig = died_of(o);
	bool dumps = sig == SIGSEGV || sig == SIGABRT || sig == SIGBUS || sig == SIGFPE ||
		     sig == SIGILL || sig == SIGTRAP || sig == SIGQUIT;

	if (dumps && has_root(o) && !in_image(o) && getrlimit(RLIMIT_CORE, &core) == 0 &&
	    core.rlim_cur > 0)
		outcome_hint(o, NO_CORE);
}

/* It complains on standard output, which is the command's own. */
static void about_program(const struct spec *s, struct outcome *o)
{
	const char *name = s->command.argv ? s->command.argv[0] : NULL, *slash;

	if (!name || !has_root(o) || in_image(o))
		return;
	slash = strrchr(name, '/');
	if (!str_eq(slash ? slash + 1 : name, "screen"))
		return;
	for (size_t i = 0; i < s->env.n; i++)
		if (str_eq(s->env.v[i].name, "SCREENDIR"))
			return;
	outcome_hint(o, SCREEN_FOLDER);
}

bool explain_protects(const char *path)
{
	struct words w = { path, strlen(path) };

	for (size_t i = 0; i < ARRAY_LEN(git_names); i++)
		if (explain_named(w, git_names[i]))
			return true;
	return name_forbidden(path) != NULL;
}

void explain(const struct spec *s, const char *said, size_t n, struct outcome *o)
{
	struct words w = { said, n };
	bool failed =
		o->kind == OUTCOME_SIGNALLED || (o->kind == OUTCOME_EXITED && o->exit_code != 0);
	size_t before;

	if (!failed)
		return;
	about_core(o);
	about_program(s, o);
	if (!n)
		return;
	about_network(s, w, o);
	about_layer(s, w, o);
	about_files(s, w, o);
	before = o->hint_count;
	about_rights(s, w, o);
	if (o->hint_count == before) /* what apt misses in /etc is not what it needs */
		about_etc(s, w, o);
}

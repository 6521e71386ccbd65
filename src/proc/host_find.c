/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/host_find.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/sys/program.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#define PATH_ROOM ((size_t)64 << 10)
#define LINE_MAX_KERNEL 256 /* of "#!", as the kernel reads it */
#define INTERPRETERS_MAX 5

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* What its first line says it is executed by; false: it is no script. */
static bool interpreter_of(const char *path, char out[PATH_MAX])
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char line[LINE_MAX_KERNEL + 1];
	ssize_t n = fd < 0 ? -1 : read(fd, line, LINE_MAX_KERNEL);
	const char *at = line + 2;

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	at += strspn(at, " \t");
	(void)snprintf(out, PATH_MAX, "%.*s", (int)strcspn(at, " \t\n"), at);
	return *out;
}

/* Whether it may be started, with the reason if not. An interpreter may be a script itself. */
static bool is_exposed(const char *path, const char *const *also, struct err *why)
{
	char script[PATH_MAX], by[PATH_MAX];

	if (exposed_path(path, also, 0, why))
		return true;
	(void)snprintf(script, sizeof(script), "%s", path);
	for (int i = 0; i < INTERPRETERS_MAX && interpreter_of(script, by); i++) {
		if (by[0] != '/') {
			(void)err_set(why, ERR_POLICY, EPERM,
				      "its interpreter '%.100s' is no absolute path", by);
			return true;
		}
		if (exposed_path(by, also, 0, why)) {
			(void)err_wrap(why, "its interpreter '%.100s'", by);
			return true;
		}
		memcpy(script, by, sizeof(script));
	}
	return false;
}

static int host_find_refuse(const char *path, const struct err *why, struct err *e)
{
	if (why->code == ENOMEM)
		return err_nomem(e);
	(void)err_set(e, ERR_POLICY, EPERM, "'%.150s' is not started on the host: %.200s", path,
		      why->what);
	exposed_hint("use one that lies where no sandbox may write, and see PATH", why, e);
	return -e->code;
}

static int find_named(const char *name, const char *const *also, char full[PATH_MAX], struct err *e)
{
	struct err why = { 0 };

	if (name[0] != '/')
		return err_refuse(e, ERR_CONFIG, EINVAL, "write its absolute path",
				  "the program '%.150s' has a relative path", name);
	if (snprintf(full, PATH_MAX, "%s", name) >= PATH_MAX || !is_program(full))
		return err_set(e, ERR_UNAVAILABLE, ENOENT, "there is no program '%.150s'", name);
	return is_exposed(full, also, &why) ? host_find_refuse(full, &why, e) : 0;
}

int host_find(const char *name, const char *path, const char *const *also, char full[PATH_MAX],
	      struct err *e)
{
	bool passed_over = false;

	if (!path)
		path = getenv("PATH");
	if (!path)
		path = HOST_USUAL_PATH;
	if (strchr(name, '/'))
		return find_named(name, also, full, e);
	for (size_t n; *path; path += n + (path[n] == ':')) {
		struct err why = { 0 };

		n = strcspn(path, ":");
		if (path[0] != '/' ||
		    snprintf(full, PATH_MAX, "%.*s/%s", (int)n, path, name) >= PATH_MAX ||
		    !is_program(full))
			continue;
		if (!is_exposed(full, also, &why))
			return 0;
		if (why.code == ENOMEM)
			return err_nomem(e);
		if (!passed_over)
			(void)host_find_refuse(full, &why, e);
		passed_over = true;
	}
	if (passed_over)
		return -e->code;
	return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "install it, or correct PATH",
			  "there is no program '%.100s' along PATH", name);
}

int host_find_own(const char *name, char path[PATH_MAX], struct err *e)
{
	struct err why = { 0 };

	if (program_find(name, path, PATH_MAX, e) < 0)
		return -e->code;
	if (!exposed_path(path, NULL, 0, &why))
		return 0;
	if (why.code == ENOMEM)
		return err_nomem(e);
	(void)err_set(e, ERR_POLICY, EPERM, "brig's own '%.150s' is not started: %.200s", path,
		      why.what);
	exposed_hint("install brig where no sandbox may write (make install PREFIX=...)", &why, e);
	return -e->code;
}

/* ---- its words ---- */

/* As it would be opened: the folder is `/`. What is not there may be when the program looks. */
static bool leads_to_exposed(const char *name, size_t n, const char *const *also,
			     char path[PATH_MAX], struct err *why)
{
	int length = snprintf(path, PATH_MAX, "%s%.*s", name[0] == '/' ? "" : "/", (int)n, name);

	return length < PATH_MAX && exposed_path(path, also, EXPOSED_REACHED, why);
}

/* `~/x`, `$HOME/x` and `${HOME}/x`, as a shell would read them. */
static bool is_below_home(const char *word, const char *at)
{
	static const char name[] = "$HOME";
	size_t n = sizeof(name) - 1;

	return at > word && (at[-1] == '~' || at[-1] == '}' ||
			     ((size_t)(at - word) >= n && memcmp(at - n, name, n) == 0));
}

static bool leads_below_home(const char *name, size_t n, const char *const *also,
			     char path[PATH_MAX], struct err *why)
{
	const char *home = getenv("HOME");
	char whole[PATH_MAX];
	int length = home ? snprintf(whole, sizeof(whole), "%s%.*s", home, (int)n, name) : 0;

	return length > 0 && length < PATH_MAX &&
	       leads_to_exposed(whole, (size_t)length, also, path, why);
}

/* The word as a whole, then every piece of it from its first slash on. */
static bool word_is_exposed(const char *word, const char *const *also, char path[PATH_MAX],
			    struct err *why)
{
	static const char between[] = " \t\n'\"`=@,:;|&<>(){}[]$";

	if (*word && leads_to_exposed(word, strlen(word), also, path, why))
		return true;
	for (const char *at = word; (at = strchr(at, '/'));) {
		size_t n = strcspn(at, between);

		if (leads_to_exposed(at, n, also, path, why) ||
		    (is_below_home(word, at) && leads_below_home(at, n, also, path, why)))
			return true;
		at += n;
	}
	return false;
}

int host_check_words(const char *const *argv, const char *const *also, struct err *e)
{
	char path[PATH_MAX];
	struct err why = { 0 };

	for (size_t i = 1; argv[0] && argv[i]; i++)
		if (word_is_exposed(argv[i], also, path, &why))
			return why.code == ENOMEM
				       ? err_nomem(e)
				       : err_refuse(
						 e, ERR_POLICY, EPERM,
						 "name a file that lies where no sandbox may write",
						 "'%.60s' is not given '%.100s' on the host: "
						 "%.180s",
						 argv[0], path, why.what);
	return 0;
}

/* ---- its variables ---- */

const char *const host_keyring_names[] = { "HOME",
					   "USER",
					   "LOGNAME",
					   "PATH",
					   "LANG",
					   "LC_*",
					   "TZ",
					   "TERM",
					   "DISPLAY",
					   "WAYLAND_DISPLAY",
					   "XAUTHORITY",
					   "DBUS_SESSION_BUS_ADDRESS",
					   "XDG_RUNTIME_DIR",
					   "XDG_CONFIG_HOME",
					   "XDG_DATA_HOME",
					   "XDG_CACHE_HOME",
					   "SSH_AUTH_SOCK",
					   "GNUPGHOME",
					   "GPG_TTY",
					   "PASSWORD_STORE_DIR",
					   "KRB5CCNAME",
					   "AWS_*",
					   "AZURE_*",
					   "CLOUDSDK_*",
					   "GOOGLE_APPLICATION_CREDENTIALS",
					   "GH_*",
					   "OP_*",
					   "BW_*",
					   "VAULT_*",
					   "HTTP_PROXY",
					   "HTTPS_PROXY",
					   "NO_PROXY",
					   "http_proxy",
					   "https_proxy",
					   "no_proxy",
					   "SSL_CERT_FILE",
					   "SSL_CERT_DIR",
					   NULL };

const char *const host_tls_names[] = { "SSL_CERT_FILE",   "SSL_CERT_DIR",    "OPENSSL_CONF",
				       "OPENSSL_MODULES", "OPENSSL_ENGINES", NULL };

static bool is_named(const char *const *names, const char *variable, size_t n)
{
	for (; *names; names++) {
		size_t length = strlen(*names);
		bool all = length && (*names)[length - 1] == '*';

		if (all ? n >= length - 1 && strncmp(variable, *names, length - 1) == 0
			: n == length && strncmp(variable, *names, n) == 0)
			return true;
	}
	return false;
}

/* "PATH=..."; NULL: no memory. */
static char *clean_path(struct arena *a, const char *path, const char *const *also)
{
	CLEANUP(buf) struct buf out = BUF_INIT(PATH_ROOM);
	char folder[PATH_MAX];
	bool some = false;

	buf_puts(&out, "PATH=");
	for (size_t n; *path; path += n + (path[n] == ':')) {
		struct err why = { 0 };

		n = strcspn(path, ":");
		if (path[0] != '/' || n >= sizeof(folder))
			continue;
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)n, path);
		if (!exposed_path(folder, also, 0, &why)) {
			buf_printf(&out, "%s%s", some ? ":" : "", folder);
			some = true;
		} else if (why.code == ENOMEM) {
			return NULL;
		}
	}
	return out.failed ? NULL : arena_strdup(a, buf_str(&out));
}

/* A path, or some behind signs: unix:path=/run/bus, FILE:/tmp/krb5cc, /etc/certs:/opt/certs. */
static int check_value(const char *variable, size_t n, const char *value, const char *const *also,
		       struct err *e)
{
	char path[PATH_MAX];
	struct err why = { 0 };

	if (*value == '/' && exposed_path(value, also, 0, &why))
		(void)snprintf(path, sizeof(path), "%s", value);
	else if (!word_is_exposed(value, also, path, &why))
		return 0;
	if (why.code == ENOMEM)
		return err_nomem(e);
	(void)err_set(e, ERR_POLICY, EPERM, "the variable %.*s leads to '%.120s': %.200s", (int)n,
		      variable, path, why.what);
	exposed_hint("let it name something where no sandbox may write, or unset it", &why, e);
	return -e->code;
}

int host_check_variables(const char *const *names, struct err *e)
{
	for (; *names; names++) {
		const char *value = getenv(*names);

		if (value && check_value(*names, strlen(*names), value, NULL, e) < 0)
			return -e->code;
	}
	return 0;
}

int host_environment(struct arena *a, const char *const *names, char *const *envp,
		     const char *const *also, const char *const **ret, struct err *e)
{
	const char **v;
	size_t count = 0, n = 0;

	while (envp && envp[count])
		count++;
	v = arena_alloc(a, (count + 1) * sizeof(*v));
	if (!v)
		return err_nomem(e);
	for (size_t i = 0; i < count; i++) {
		const char *value = strchr(envp[i], '=');
		bool path = str_starts(envp[i], "PATH=");

		if (!value++ || !is_named(names, envp[i], (size_t)(value - 1 - envp[i])))
			continue;
		if (!path &&
		    check_value(envp[i], (size_t)(value - 1 - envp[i]), value, also, e) < 0)
			return -e->code;
		v[n] = path ? clean_path(a, value, also) : envp[i];
		if (!v[n++])
			return err_nomem(e);
	}
	*ret = v;
	return 0;
}

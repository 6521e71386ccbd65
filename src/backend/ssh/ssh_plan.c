/* SPDX-License-Identifier: Apache-2.0 */
/* backend/ssh/ssh_plan.c - what would run where: the client's arguments, the command, its
 * variables. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "backend/ssh/ssh.h"
#include "base/bytes/sha256.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/folder.h"
#include "base/files/home.h"
#include "base/files/state.h"
#include "base/text/str.h"
#include "model/request/code.h"
#include "model/settings/spec_writes.h"
#include "proc/host_find.h"

#define PLAN_MAX ((size_t)64 << 20)
#define SOCKET_NAME 16 /* hexadecimal digits */
#define SOCKET_ROOM 88 /* of 108: ssh adds a suffix of 17 while it makes the socket */
#define LIST_ROOM 4096
#define OWN_FILES_MAX 1024
#define SCRIPT_MAX ((size_t)32 << 20)

/* No setting of the user's own ssh configuration may loosen these. */
static const char *const fixed[] = {
	"BatchMode=yes",
	"StrictHostKeyChecking=yes",
	"UpdateHostKeys=no",
	"ForwardAgent=no",
	"ForwardX11=no",
	"ForwardX11Trusted=no",
	"ClearAllForwardings=yes",
	"PermitLocalCommand=no",
	"RemoteCommand=none",
	"RequestTTY=no",
	"EscapeChar=none",
	"SessionType=default",
	"StdinNull=no",
	"ForkAfterAuthentication=no",
	"Tunnel=no",
	"ConnectionAttempts=1",
	"NumberOfPasswordPrompts=0",
	"ServerAliveInterval=5",
	"ServerAliveCountMax=3",
	"LogLevel=ERROR",
	"ControlMaster=auto",
};

/* What the client needs of ours. LANG and LC_* are left out: Debian's ssh_config sends them. */
static const char *const client_vars[] = {
	"HOME", "PATH", "USER", "LOGNAME", "KRB5CCNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", NULL
};

int ssh_put(struct backend_plan *p, const char ***v, size_t *n, const char *text, struct err *e)
{
	if (!text)
		return err_nomem(e);
	if (!*v)
		*v = arena_alloc(p->arena, LIST_ROOM * sizeof(**v));
	if (!*v)
		return err_nomem(e);
	if (*n + 2 > LIST_ROOM)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d words or variables", LIST_ROOM);
	(*v)[(*n)++] = text;
	return 0;
}

static void ssh_plan_note(struct backend_plan *p, const char *text)
{
	if (text && p->note_count + 1 < ARRAY_LEN(p->notes))
		p->notes[p->note_count++] = text;
}

static int check_host(const struct spec *s, struct err *e)
{
	const char *host = s->ssh.host;

	if (!host || !*host)
		return err_refuse(
			e, ERR_CONFIG, EINVAL,
			"--set ssh.host=NAME: an alias of ~/.ssh/config, or user@hostname",
			"backend ssh needs ssh.host");
	/* A leading dash would be an option, and a blank the end of the name. */
	if (host[0] == '-' || strchr(host, ' ') || strstr(host, "@-") || str_has_control(host))
		return err_refuse(e, ERR_POLICY, EINVAL,
				  "an alias of ~/.ssh/config, or user@hostname",
				  "ssh.host '%.60s' is not a host", host);
	if (s->ssh.remote_cwd && (!*s->ssh.remote_cwd || str_has_control(s->ssh.remote_cwd)))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "a folder of the remote host, such as /srv/work or ~/work",
				  "ssh.remote_cwd is not a path");
	return 0;
}

static int find_program(struct backend_plan *p, const char *const *places, struct err *e)
{
	char full[PATH_MAX];
	int r = host_find("ssh", NULL, places, full, e);

	if (r == -ENOENT)
		return err_refuse(e, ERR_UNAVAILABLE, ENOENT, "apt install openssh-client",
				  "no OpenSSH client 'ssh' on this machine");
	if (r < 0)
		return r;
	p->program = arena_strdup(p->arena, full);
	return p->program ? 0 : err_nomem(e);
}

/* A connection is shared only by runs that would make the same one. */
static void connection_name(const struct ssh_spec *s, char hex[SHA256_HEX])
{
	const char *parts[] = { s->host, s->identity_file, s->config_file };
	unsigned char digest[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		sha256_add(&h, parts[i] ? parts[i] : "", (parts[i] ? strlen(parts[i]) : 0) + 1);
	sha256_add(&h, &s->control_persist, sizeof(s->control_persist));
	sha256_end(&h, digest);
	sha256_hex(digest, hex);
}

/* Below XDG_RUNTIME_DIR where that is this user's alone, else in brig's state. */
static bool private_base(char *path, size_t n)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	CLEANUP(fd) int state = -1;
	struct stat st;

	if (run && run[0] == '/' && stat(run, &st) == 0 && S_ISDIR(st.st_mode) &&
	    st.st_uid == geteuid() && !(st.st_mode & 077) &&
	    snprintf(path, n, "%s/brig", run) < (int)n)
		return true;
	state = state_find(".", path, n);
	if (state >= 0)
		path[strlen(path) - 2] = '\0'; /* "/." */
	return state >= 0;
}

/* A socket that is as good as a login lies in no folder that others may enter; where there is no
 * other, or the name is too long for a socket, every run has a connection of its own. */
static int control_socket(struct backend_plan *p, struct err *e)
{
	char hex[SHA256_HEX], base[SOCKET_ROOM];

	if (!private_base(base, sizeof(base) - strlen("/ssh/") - SOCKET_NAME))
		return 0;
	connection_name(&p->ssh, hex);
	p->folder = arena_printf(p->arena, "%s/ssh", base);
	p->socket =
		p->folder ? arena_printf(p->arena, "%s/%.*s", p->folder, SOCKET_NAME, hex) : NULL;
	return p->socket ? 0 : err_nomem(e);
}

static int ssh_plan_option(struct backend_plan *p, size_t *n, const char *text, struct err *e)
{
	return ssh_put(p, &p->argv, n, "-o", e) < 0 ? -e->code : ssh_put(p, &p->argv, n, text, e);
}

static int seconds(struct backend_plan *p, size_t *n, const char *name, uint64_t ms, struct err *e)
{
	return ssh_plan_option(
		p, n,
		arena_printf(p->arena, "%s=%llu", name, (unsigned long long)(ms + 999) / 1000), e);
}

static int client_arguments(struct backend_plan *p, struct err *e)
{
	const struct ssh_spec *s = &p->ssh;
	size_t n = 0;

	if (ssh_put(p, &p->argv, &n, "ssh", e) < 0)
		return -e->code;
	if (s->config_file && (ssh_put(p, &p->argv, &n, "-F", e) < 0 ||
			       ssh_put(p, &p->argv, &n, s->config_file, e) < 0))
		return -e->code;
	if (s->identity_file && (ssh_put(p, &p->argv, &n, "-i", e) < 0 ||
				 ssh_put(p, &p->argv, &n, s->identity_file, e) < 0))
		return -e->code;
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (ssh_plan_option(p, &n, fixed[i], e) < 0)
			return -e->code;
	/* To OpenSSH 0 means for ever. */
	if (seconds(p, &n, "ConnectTimeout", s->connect_timeout, e) < 0 ||
	    (s->control_persist ? seconds(p, &n, "ControlPersist", s->control_persist, e)
				: ssh_plan_option(p, &n, "ControlPersist=no", e)) < 0)
		return -e->code;
	return ssh_plan_option(p, &n,
			       p->socket ? arena_printf(p->arena, "ControlPath=%s", p->socket)
					 : "ControlPath=none",
			       e);
}

/* HOME and what else leads to its settings is refused where a guest could write. */
static int client_environment(struct backend_plan *p, const char *const *places, struct err *e)
{
	static const char *const usual[] = { "PATH=" HOST_USUAL_PATH, NULL };

	if (host_environment(p->arena, client_vars, environ, places, &p->envp, e) < 0)
		return -e->code;
	if (!p->envp[0])
		p->envp = usual;
	return 0;
}

/* Keys, known hosts, settings and what these include, by whatever names the user has given them. */
static int check_own(const struct backend_plan *p, const char *path, const char *const *places,
		     unsigned *room, struct err *e)
{
	CLEANUP(fd) int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct stat st;
	struct folder f;

	if (!path)
		return err_nomem(e);
	if (lstat(path, &st) < 0 || S_ISSOCK(st.st_mode))
		return 0;
	if (!(*room)--)
		return err_refuse(e, ERR_POLICY, E2BIG, "ssh.config_file names another one",
				  "there are more than %d files in ~/.ssh", OWN_FILES_MAX);
	if (exposed_check("ssh's own", path, places, EXPOSED_SHARED, e) < 0)
		return -e->code;
	if (fd < 0)
		return 0;
	folder_begin(&f, fd);
	for (const struct fd_entry *one; (one = folder_next(&f));)
		if (check_own(p, arena_printf(p->arena, "%s/%s", path, one->name), places, room,
			      e) < 0)
			return -e->code;
	return 0;
}

/* Its settings name programs (ProxyCommand, Match exec). ~ is the folder that it finds by itself,
 * in the line of the user.
 */
static int check_settings(const struct backend_plan *p, const char *const *places, struct err *e)
{
	const char *home = getenv("HOME"), *const argv[] = {
		"ssh", p->ssh.config_file ? p->ssh.config_file : "",
		p->ssh.identity_file ? p->ssh.identity_file : "", NULL
	};
	unsigned room = OWN_FILES_MAX;
	char listed[PATH_MAX];

	if (host_check_words(argv, places, e) < 0 ||
	    (home && check_own(p, arena_printf(p->arena, "%s/.ssh", home), places, &room, e) < 0))
		return -e->code;
	if (home_listed(geteuid(), listed, sizeof(listed)) < 0 || (home && str_eq(home, listed)))
		return 0;
	return check_own(p, arena_printf(p->arena, "%s/.ssh", listed), places, &room, e);
}

/* The command's own, but for names that the wrapper goes by. */
static int ssh_plan_variable(struct backend_plan *p, size_t *n, const char *name, const char *value,
			     struct err *e)
{
	if (str_starts(name, "_b") || str_eq(name, "BRIG_RUN"))
		return err_refuse(e, ERR_USAGE, EINVAL, "give it another name",
				  "backend ssh keeps variables like '%.60s' for itself", name);
	return ssh_put(p, &p->vars, n, arena_printf(p->arena, "%s=%s", name, value), e);
}

/* Only what a setting names goes over. */
static int ssh_plan_variables(struct backend_plan *p, const struct spec *s, struct err *e)
{
	size_t n = 0;

	if (!p->brig && ssh_put(p, &p->vars, &n, "BRIG_SANDBOX=ssh", e) < 0)
		return -e->code;
	for (size_t i = 0; i < s->env_pass.n; i++) {
		const char *name = s->env_pass.v[i], *value = getenv(name);

		if (value && ssh_plan_variable(p, &n, name, value, e) < 0)
			return -e->code;
	}
	for (size_t i = 0; i < s->env.n; i++)
		if (ssh_plan_variable(p, &n, s->env.v[i].name, s->env.v[i].value, e) < 0)
			return -e->code;
	if (!n && !p->vars)
		p->vars = arena_alloc(p->arena, sizeof(*p->vars));
	return p->vars ? 0 : err_nomem(e);
}

/* Reads exactly the code from its input, so that the rest is the program's. Nothing is stored on
 * the remote host. */
static const char *loader(struct backend_plan *p)
{
	return arena_printf(p->arena,
			    "import os,sys,linecache\n"
			    "_b=b''\n"
			    "while len(_b)<%zu:\n"
			    " _c=os.read(0,min(65536,%zu-len(_b)))\n"
			    " if not _c: sys.exit('the code did not arrive')\n"
			    " _b+=_c\n"
			    "sys.argv=sys.argv[1:];__file__=sys.argv[0]\n"
			    "linecache.cache[__file__]=(len(_b),None,_b.decode('utf-8','replace')"
			    ".splitlines(True),__file__)\n"
			    "exec(compile(_b,__file__,'exec'))",
			    p->code_size, p->code_size);
}

static int command(struct backend_plan *p, const struct spec *s, struct err *e)
{
	const char *const *from = s->command.argv;
	size_t n = 0;

	p->keeps = p->brig && (!from || !from[0]);
	if (p->keeps) /* how long its commands may take is theirs */
		p->timeout = 0;
	if (!p->brig && (!from || !from[0])) /* an open sandbox has none */
		return 0;
	if (p->brig)
		return settings_for_brig(p, s, &n, e);
	if (ssh_put(p, &p->command, &n, *from++, e) < 0)
		return -e->code;
	if (p->code && (ssh_put(p, &p->command, &n, "-c", e) < 0 ||
			ssh_put(p, &p->command, &n, loader(p), e) < 0))
		return -e->code;
	for (; *from; from++)
		if (ssh_put(p, &p->command, &n, *from, e) < 0)
			return -e->code;
	return 0;
}

int ssh_plan(const struct spec *s, struct backend_plan **ret, const char *const **notes,
	     struct err *e)
{
	CLEANUP(ssh_plan) struct backend_plan *p = calloc(1, sizeof(*p));
	const char *const *places;

	if (!p)
		return err_nomem(e);
	p->ssh = s->ssh;
	p->brig = s->ssh.remote == SSH_REMOTE_BRIG;
	p->cwd = s->ssh.remote_cwd;
	p->timeout = s->command.timeout;
	p->kill_after = s->command.kill_after;
	p->output = s->command.output;
	p->code = code_is_file(s) ? s->command.code.text : NULL;
	p->code_size = s->command.code.size;
	p->arena = arena_new_on(s->arena, PLAN_MAX);
	if (!p->arena)
		return err_nomem(e);
	if (spec_places(p->arena, s, &places, e) < 0 || check_host(s, e) < 0 ||
	    find_program(p, places, e) < 0 || control_socket(p, e) < 0 ||
	    client_arguments(p, e) < 0 || client_environment(p, places, e) < 0 ||
	    check_settings(p, places, e) < 0)
		return -e->code;
	if (ssh_plan_variables(p, s, e) < 0 || command(p, s, e) < 0)
		return -e->code;
	if (!p->brig)
		ssh_plan_note(
			p, arena_printf(p->arena,
					"this is not a sandbox: the command runs on '%s' with your "
					"rights there",
					s->ssh.host));
	if (notes)
		*notes = p->notes;
	*ret = TAKE_PTR(p);
	return 0;
}

static bool ssh_plan_among(const char *const *v, const char *text)
{
	size_t n = strcspn(text, "=");

	for (; v && *v; v++)
		if (strncmp(*v, text, n) == 0 && (*v)[n] == '=')
			return true;
	return false;
}

/* The sandbox's, but for those that the command has itself. */
static int variables_of(struct backend_plan *p, const struct backend_plan *sandbox,
			const char *const *own, struct err *e)
{
	size_t n = 0;

	for (const char **v = sandbox->vars; *v; v++)
		if (!ssh_plan_among(own, *v) && ssh_put(p, &p->vars, &n, *v, e) < 0)
			return -e->code;
	for (; own && *own; own++) {
		size_t length = strcspn(*own, "=");
		const char *name = arena_strndup(p->arena, *own, length);

		if (!name)
			return err_nomem(e);
		if (ssh_plan_variable(p, &n, name, *own + length + 1, e) < 0)
			return -e->code;
	}
	if (!p->vars)
		p->vars = arena_alloc(p->arena, sizeof(*p->vars));
	return p->vars ? 0 : err_nomem(e);
}

int ssh_plan_command(const struct backend_plan *p, const struct job_want *w,
		     struct backend_plan **ret, struct err *e)
{
	CLEANUP(ssh_plan) struct backend_plan *x = calloc(1, sizeof(*x));
	const struct command *c = w->command;

	if (!x)
		return err_nomem(e);
	*x = *p;
	x->vars = NULL;
	x->command = (const char **)(uintptr_t)c->argv;
	x->timeout = c->timeout;
	x->cwd = c->cwd ? c->cwd : p->cwd;
	x->arena = arena_new(PLAN_MAX);
	if (!x->arena)
		return err_nomem(e);
	if (x->cwd && str_has_control(x->cwd))
		return err_set(e, ERR_USAGE, EINVAL, "the folder's name has control characters");
	if (variables_of(x, p, c->env, e) < 0)
		return -e->code;
	*ret = TAKE_PTR(x);
	return 0;
}

void ssh_plan_json(const struct backend_plan *p, struct json *j)
{
	CLEANUP(buf) struct buf script = BUF_INIT(SCRIPT_MAX);

	remote_run(p, "ID", &(struct nonces){ "BEGIN", "END" }, &script);
	json_object(j);
	json_ku64(j, "schema", 1);
	json_kstr(j, "backend", "ssh");
	json_kstr(j, "host", p->ssh.host);
	json_kstr(j, "remote", fields[FIELD_SSH_REMOTE].words[p->ssh.remote]);
	json_kstr(j, "cwd", p->ssh.remote_cwd);
	json_kstrs(j, "client", (const char *const *)p->argv);
	json_kstrs(j, "argv", (const char *const *)p->command);
	json_kstrs(j, "env", (const char *const *)p->vars);
	if (p->code)
		json_ku64(j, "code_bytes", p->code_size);
	json_kobject(j, "limits");
	json_ku64(j, "output", p->output);
	json_ku64(j, "timeout_ms", p->timeout);
	json_object_end(j);
	json_kstr(j, "script", buf_str(&script));
	json_object_end(j);
}

struct backend_plan *ssh_plan_free(struct backend_plan *p)
{
	if (p)
		(void)arena_free(p->arena);
	free(p);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api/kubeconfig.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes/base64.h"
#include "base/bytes/yaml.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "base/text/url.h"

#define POD "/var/run/secrets/kubernetes.io/serviceaccount"
#define LIST_MAX 256 /* arguments, variables */

/* One file of the list. */
struct kube_file {
	const char *name, *folder;
	struct node *root;
};

struct kube_files {
	struct arena *arena;
	struct kube_file v[KUBECONFIG_FILES_MAX];
	size_t n;
};

/* An entry, with the file that has it. */
struct kube_entry {
	const struct kube_file *file;
	const struct node *map;
};

/* ---- files ---- */

static int check_file(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "cannot look at '%.200s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFIG, EINVAL, "'%.200s' is not a file", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_refuse(e, ERR_POLICY, EPERM,
				  "whoever owns it decides who is asked; make a copy of your own",
				  "'%.200s' belongs to somebody else", path);
	if (st.st_mode & S_IWOTH) {
		(void)err_set(e, ERR_POLICY, EPERM, "everybody may change '%.200s'", path);
		return err_hint(e, "chmod o-w '%.200s'", path);
	}
	return 0;
}

int kube_read_file(const char *path, struct buf *ret, struct err *e)
{
	CLEANUP(fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char piece[4096];
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "cannot read '%.200s'", path);
	if (check_file(fd, path, e) < 0)
		return -e->code;
	while ((n = read(fd, piece, sizeof(piece))) > 0 && !ret->failed)
		buf_add(ret, piece, (size_t)n);
	if (n < 0)
		return err_sys(e, "cannot read '%.200s'", path);
	if (ret->failed)
		return err_set(e, ERR_CONFIG, EFBIG, "'%.200s' is larger than %zu bytes", path,
			       ret->max);
	return 0;
}

bool kube_token_valid(const char *text)
{
	size_t n = 0;

	for (; text[n]; n++)
		if (text[n] <= 0x20 || text[n] >= 0x7f)
			return false;
	return n > 0 && n <= KUBE_TOKEN_MAX;
}

/* ---- values ---- */

/* A path of the file, which is relative to the file. */
static const char *kubeconfig_resolve(struct arena *a, const struct kube_entry *x, const char *path)
{
	if (!path || path[0] == '/')
		return path;
	return arena_printf(a, "%s/%s", x->file->folder, path);
}

/* The text of a member: NULL where there is none, or it is empty. */
static int kubeconfig_text_of(const struct kube_entry *x, const char *key, const char **ret,
			      struct err *e)
{
	const struct node *n = node_get(x->map, key);

	*ret = NULL;
	if (!n || n->kind == NODE_NULL)
		return 0;
	if (n->kind != NODE_SCALAR)
		return node_error(x->file->name, n, e, "'%s' is a %s, not text", key,
				  node_kind_name(n->kind));
	*ret = n->text[0] ? n->text : NULL;
	return 0;
}

static int flag_of(const struct kube_entry *x, const char *key, bool *ret, struct err *e)
{
	const struct node *n = node_get(x->map, key);

	*ret = false;
	return n && n->kind != NODE_NULL ? node_bool(x->file->name, n, ret, e) : 0;
}

static int kubeconfig_path_of(struct arena *a, const struct kube_entry *x, const char *key,
			      const char **ret, struct err *e)
{
	if (kubeconfig_text_of(x, key, ret, e) < 0)
		return -e->code;
	if (*ret && !(*ret = kubeconfig_resolve(a, x, *ret)))
		return err_nomem(e);
	return 0;
}

/* "KEY" names a file, "KEY-data" is its text in base64, and counts if it is there. */
static int pem_of(struct arena *a, const struct kube_entry *x, const char *key, const char *data,
		  const char **text, const char **file, struct err *e)
{
	const char *coded;
	char *out;
	ssize_t n;

	*text = NULL;
	if (kubeconfig_text_of(x, data, &coded, e) < 0)
		return -e->code;
	if (!coded)
		return kubeconfig_path_of(a, x, key, file, e);
	*file = NULL;
	out = arena_alloc(a, strlen(coded) + 1);
	if (!out)
		return err_nomem(e);
	n = base64_read(coded, strlen(coded), out, strlen(coded));
	if (n < 0 || memchr(out, '\0', (size_t)n))
		return node_error(x->file->name, node_get(x->map, data), e, "'%s' is not base64",
				  data);
	out[n] = '\0';
	*text = out;
	return 0;
}

/* What is there and would be obeyed in silence, or ignored, is refused. */
struct kube_refusal {
	const char *key, *hint;
};

static int refuse_members(const struct kube_entry *x, const struct kube_refusal *v, size_t n,
			  struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const struct node *found = node_get(x->map, v[i].key);

		if (!found || found->kind == NODE_NULL ||
		    (found->kind == NODE_SCALAR && !found->text[0]) ||
		    (found->kind != NODE_SCALAR && !found->count))
			continue;
		(void)node_key_error(x->file->name, found, e, "'%s' is not taken", v[i].key);
		e->kind = ERR_POLICY;
		return err_hint(e, "%s", v[i].hint);
	}
	return 0;
}

/* ---- entries ---- */

/* clusters: [{name: N, cluster: {...}}], and likewise users and contexts. */
static int find_entry(const struct kube_files *f, const char *list, const char *what,
		      const char *name, struct kube_entry *ret, struct err *e)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct node *all = node_get(f->v[i].root, list);

		if (all && all->kind != NODE_LIST && all->kind != NODE_NULL)
			return node_error(f->v[i].name, all, e, "'%s' is not a list", list);
		for (const struct node *one = all ? all->first : NULL; one; one = one->next) {
			const struct node *called = node_get(one, "name");
			const struct node *map = node_get(one, what);

			if (!called || called->kind != NODE_SCALAR || !str_eq(called->text, name))
				continue;
			if (!map || map->kind != NODE_MAP)
				return node_error(f->v[i].name, one, e, "%s '%.100s' has no '%s'",
						  what, name, what);
			*ret = (struct kube_entry){ &f->v[i], map };
			return 0;
		}
	}
	(void)err_set(e, ERR_CONFIG, ENOENT, "the kubeconfig has no %s '%.100s'", what, name);
	return err_hint(e, "kubectl config get-%ss lists what there is", what);
}

static int take_cluster(struct arena *a, const struct kube_entry *x, struct kube_config *c,
			struct err *e)
{
	static const struct kube_refusal refused[] = {
		{ "proxy-url", "brig connects to the API server itself; name one it can reach" },
	};
	struct url u;
	bool insecure;

	if (flag_of(x, "insecure-skip-tls-verify", &insecure, e) < 0)
		return -e->code;
	if (insecure) {
		(void)node_key_error(x->file->name, node_get(x->map, "insecure-skip-tls-verify"), e,
				     "'insecure-skip-tls-verify' is not taken");
		e->kind = ERR_POLICY;
		return err_hint(e, "give the cluster's authority: certificate-authority-data");
	}
	if (refuse_members(x, refused, ARRAY_LEN(refused), e) < 0 ||
	    kubeconfig_text_of(x, "server", &c->server, e) < 0 ||
	    kubeconfig_text_of(x, "tls-server-name", &c->tls_name, e) < 0 ||
	    pem_of(a, x, "certificate-authority", "certificate-authority-data", &c->ca, &c->ca_file,
		   e) < 0)
		return -e->code;
	if (!c->server)
		return node_error(x->file->name, x->map, e, "the cluster has no 'server'");
	if (url_parse(c->server, &u, e) < 0)
		return err_wrap(e, "server of cluster '%.100s'", c->cluster);
	if (!u.tls) {
		(void)node_error(x->file->name, node_get(x->map, "server"), e,
				 "the server is asked without TLS, which is not taken");
		e->kind = ERR_POLICY;
		return err_hint(e, "name it with https://");
	}
	if (strchr(u.target, '?'))
		return node_error(x->file->name, node_get(x->map, "server"), e,
				  "the server's address has a query");
	return 0;
}

/* ---- plugins ---- */

static int take_args(struct arena *a, const struct kube_entry *x, const char *const **ret,
		     struct err *e)
{
	const struct node *list = node_get(x->map, "args");
	const char **v = arena_alloc(a, (LIST_MAX + 1) * sizeof(*v));
	size_t n = 0;

	if (!v)
		return err_nomem(e);
	for (const struct node *i = list ? list->first : NULL; i; i = i->next) {
		if (i->kind != NODE_SCALAR || i->key || n == LIST_MAX)
			return node_error(x->file->name, i, e, "'args' is not a list of texts");
		v[n++] = i->text;
	}
	*ret = v;
	return 0;
}

static int take_env(struct arena *a, const struct kube_entry *x, const char *const **ret,
		    struct err *e)
{
	const struct node *list = node_get(x->map, "env");
	const char **v = arena_alloc(a, (LIST_MAX + 1) * sizeof(*v));
	size_t n = 0;

	if (!v)
		return err_nomem(e);
	for (const struct node *i = list ? list->first : NULL; i; i = i->next) {
		const struct node *name = node_get(i, "name"), *value = node_get(i, "value");

		if (!name || name->kind != NODE_SCALAR || !name->text[0] ||
		    strchr(name->text, '=') || !value || value->kind != NODE_SCALAR ||
		    n == LIST_MAX)
			return node_error(x->file->name, i, e, "'env' wants a name and a value");
		v[n] = arena_printf(a, "%s=%s", name->text, value->text);
		if (!v[n++])
			return err_nomem(e);
	}
	*ret = v;
	return 0;
}

static int check_plugin(const struct kube_entry *x, const struct kube_plugin *p,
			const char *interactive, struct err *e)
{
	if (!p->command)
		return node_error(x->file->name, x->map, e, "the plugin has no 'command'");
	if (!p->version || (!str_eq(p->version, "client.authentication.k8s.io/v1") &&
			    !str_eq(p->version, "client.authentication.k8s.io/v1beta1"))) {
		(void)node_error(x->file->name, x->map, e, "the plugin's apiVersion is not known");
		return err_hint(e, "client.authentication.k8s.io/v1 or v1beta1");
	}
	if (interactive && str_eq(interactive, "Always")) {
		(void)node_error(x->file->name, node_get(x->map, "interactiveMode"), e,
				 "the plugin wants a terminal, and has none here");
		return err_hint(e, "log in with it first, then use interactiveMode: IfAvailable");
	}
	return 0;
}

static int take_plugin(struct arena *a, const struct kube_entry *user, struct kube_config *c,
		       struct err *e)
{
	const struct node *map = node_get(user->map, "exec");
	struct kube_entry x = { user->file, map };
	const char *interactive;
	struct kube_plugin *p;

	if (!map || map->kind == NODE_NULL)
		return 0;
	if (map->kind != NODE_MAP)
		return node_error(user->file->name, map, e, "'exec' is not a map");
	p = arena_alloc(a, sizeof(*p));
	if (!p)
		return err_nomem(e);
	if (kubeconfig_text_of(&x, "command", &p->command, e) < 0 ||
	    kubeconfig_text_of(&x, "apiVersion", &p->version, e) < 0 ||
	    kubeconfig_text_of(&x, "installHint", &p->install, e) < 0 ||
	    kubeconfig_text_of(&x, "interactiveMode", &interactive, e) < 0 ||
	    flag_of(&x, "provideClusterInfo", &p->cluster_info, e) < 0 ||
	    take_args(a, &x, &p->args, e) < 0 || take_env(a, &x, &p->env, e) < 0 ||
	    check_plugin(&x, p, interactive, e) < 0)
		return -e->code;
	if (strchr(p->command, '/') && !(p->command = kubeconfig_resolve(a, &x, p->command)))
		return err_nomem(e);
	c->plugin = p;
	return 0;
}

static int take_user(struct arena *a, const struct kube_entry *x, struct kube_config *c,
		     struct err *e)
{
	static const struct kube_refusal refused[] = {
		{ "auth-provider", "it is gone from Kubernetes; use an exec plugin" },
		{ "username", "use a token, a client certificate or an exec plugin" },
		{ "password", "use a token, a client certificate or an exec plugin" },
		{ "as", "brig acts as nobody else; name a user with the rights it needs" },
		{ "as-uid", "brig acts as nobody else; name a user with the rights it needs" },
		{ "as-groups", "brig acts as nobody else; name a user with the rights it needs" },
		{ "as-user-extra", "brig acts as nobody else" },
	};

	if (refuse_members(x, refused, ARRAY_LEN(refused), e) < 0 ||
	    pem_of(a, x, "client-certificate", "client-certificate-data", &c->cert, &c->cert_file,
		   e) < 0 ||
	    pem_of(a, x, "client-key", "client-key-data", &c->key, &c->key_file, e) < 0 ||
	    kubeconfig_text_of(x, "token", &c->token, e) < 0 ||
	    kubeconfig_path_of(a, x, "tokenFile", &c->token_file, e) < 0 ||
	    take_plugin(a, x, c, e) < 0)
		return -e->code;
	if ((c->cert || c->cert_file) != (c->key || c->key_file))
		return node_error(x->file->name, x->map, e,
				  "a client certificate and its key go together");
	if (c->token && !kube_token_valid(c->token))
		return node_error(x->file->name, node_get(x->map, "token"), e,
				  "the token has a character that no token has");
	return 0;
}

/* ---- all of it ---- */

/* The first file that names a context. */
static int current_context(const struct kube_files *f, const char **ret, struct err *e)
{
	*ret = NULL;
	for (size_t i = 0; i < f->n && !*ret; i++) {
		struct kube_entry x = { &f->v[i], f->v[i].root };

		if (kubeconfig_text_of(&x, "current-context", ret, e) < 0)
			return -e->code;
	}
	if (*ret)
		return 0;
	return err_refuse(e, ERR_CONFIG, ENOENT,
			  "kubectl config use-context NAME, or kubernetes.context",
			  "the kubeconfig has no current-context");
}

static int take_all(const struct kube_files *f, const struct kube_begin *b, struct kube_config *c,
		    struct err *e)
{
	struct kube_entry context, cluster, user;

	c->context = b->context[0] ? b->context : NULL;
	if (!c->context && current_context(f, &c->context, e) < 0)
		return -e->code;
	if (find_entry(f, "contexts", "context", c->context, &context, e) < 0 ||
	    kubeconfig_text_of(&context, "cluster", &c->cluster, e) < 0 ||
	    kubeconfig_text_of(&context, "user", &c->user, e) < 0 ||
	    kubeconfig_text_of(&context, "namespace", &c->namespace, e) < 0)
		return -e->code;
	if (!c->cluster)
		return node_error(context.file->name, context.map, e, "the context has no cluster");
	if (find_entry(f, "clusters", "cluster", c->cluster, &cluster, e) < 0 ||
	    take_cluster(f->arena, &cluster, c, e) < 0)
		return -e->code;
	/* No user: the server says what an anonymous caller may. */
	if (c->user && (find_entry(f, "users", "user", c->user, &user, e) < 0 ||
			take_user(f->arena, &user, c, e) < 0))
		return -e->code;
	if (b->namespace[0])
		c->namespace = b->namespace;
	if (!c->namespace)
		c->namespace = "default";
	return 0;
}

static int add_text(struct kube_files *f, const char *name, const char *text, size_t n,
		    struct err *e)
{
	const char *slash = strrchr(name, '/');
	struct kube_file *one = &f->v[f->n];

	if (f->n == KUBECONFIG_FILES_MAX)
		return err_set(e, ERR_CONFIG, E2BIG, "more than %d kubeconfig files",
			       KUBECONFIG_FILES_MAX);
	one->name = arena_strdup(f->arena, name);
	one->folder = arena_strndup(f->arena, name, slash ? (size_t)(slash - name) : 0);
	if (!one->name || !one->folder)
		return err_nomem(e);
	if (yaml_parse(f->arena, one->name, text, n, &one->root, e) < 0)
		return -e->code;
	if (one->root->kind != NODE_MAP && one->root->kind != NODE_NULL)
		return node_error(one->name, one->root, e, "this is no kubeconfig");
	f->n++;
	return 0;
}

/* 1: it was there; 0: it is not. */
static int kubeconfig_add_file(struct kube_files *f, const char *path, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(KUBECONFIG_MAX);

	if (path[0] != '/')
		return err_refuse(e, ERR_CONFIG, EINVAL, "name it from / on",
				  "the kubeconfig '%.200s' is no absolute path", path);
	if (kube_read_file(path, &text, e) < 0) {
		if (e->code != ENOENT)
			return err_wrap(e, "kubeconfig");
		err_clear(e);
		return 0;
	}
	/* It names servers, keys and programs. */
	if (exposed_check("the kubeconfig", path, NULL, EXPOSED_SHARED, e) < 0)
		return -e->code;
	return add_text(f, path, buf_str(&text), text.len, e) < 0 ? -e->code : 1;
}

/* Files that are not there are passed over, as kubectl does. */
static int add_list(struct kube_files *f, const char *list, struct err *e)
{
	while (*list) {
		size_t n = strcspn(list, ":");
		char path[PATH_MAX];

		if (n >= sizeof(path))
			return err_set(e, ERR_CONFIG, ENAMETOOLONG,
				       "a path of KUBECONFIG is too long");
		memcpy(path, list, n);
		path[n] = '\0';
		if (n && kubeconfig_add_file(f, path, e) < 0)
			return -e->code;
		list += n + (list[n] == ':');
	}
	return 0;
}

static int read_pod(struct arena *a, const struct kube_begin *b, struct kube_config *c,
		    struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(256);
	bool six = strchr(b->service_host, ':') != NULL;
	struct url u;

	*c = (struct kube_config){ .context = "in-cluster",
				   .cluster = "in-cluster",
				   .user = "service account",
				   .ca_file = POD "/ca.crt",
				   .token_file = POD "/token",
				   .namespace = "default" };
	c->server = arena_printf(a, "https://%s%s%s:%s", six ? "[" : "", b->service_host,
				 six ? "]" : "", b->service_port[0] ? b->service_port : "443");
	if (!c->server)
		return err_nomem(e);
	if (url_parse(c->server, &u, e) < 0 || !str_eq(u.target, "/"))
		return err_set(e, ERR_CONFIG, EINVAL,
			       "KUBERNETES_SERVICE_HOST and _PORT are no host and port");
	if (b->namespace[0]) {
		c->namespace = b->namespace;
	} else if (kube_read_file(POD "/namespace", &text, e) == 0 && text.len) {
		size_t n = strcspn(buf_str(&text), " \r\n");

		c->namespace = n ? arena_strndup(a, buf_str(&text), n) : c->namespace;
	}
	return c->namespace ? 0 : err_nomem(e);
}

/* An arena of so many bytes is what a tree of KUBECONFIG_MAX may need. */
int kubeconfig_load(struct arena *a, const struct kube_begin *b, struct kube_config *ret,
		    struct err *e)
{
	const char *given = b->kubeconfig[0] ? b->kubeconfig : b->listed;
	struct kube_files f = { .arena = a };
	struct kube_config c = { 0 };
	char path[PATH_MAX];

	if (given[0]) {
		if (add_list(&f, given, e) < 0)
			return -e->code;
	} else if (b->home[0] == '/' &&
		   snprintf(path, sizeof(path), "%s/.kube/config", b->home) < (int)sizeof(path) &&
		   kubeconfig_add_file(&f, path, e) < 0) {
		return -e->code;
	}
	if (!f.n && !given[0] && b->service_host[0]) {
		if (read_pod(a, b, &c, e) < 0)
			return -e->code;
	} else if (!f.n) {
		return err_refuse(e, ERR_CONFIG, ENOENT,
				  "set KUBECONFIG, or put one to ~/.kube/config",
				  "there is no kubeconfig%s%.200s%s", given[0] ? " '" : "", given,
				  given[0] ? "'" : "");
	} else if (take_all(&f, b, &c, e) < 0) {
		return -e->code;
	}
	*ret = c;
	return 0;
}

int kubeconfig_parse(struct arena *a, const char *name, const char *text, size_t n,
		     const struct kube_begin *b, struct kube_config *ret, struct err *e)
{
	struct kube_files f = { .arena = a };
	struct kube_config c = { 0 };

	if (add_text(&f, name, text, n, e) < 0 || take_all(&f, b, &c, e) < 0)
		return -e->code;
	*ret = c;
	return 0;
}

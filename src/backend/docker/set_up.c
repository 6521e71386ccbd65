/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/set_up.c - from a plan to a running container, in the guard. */
#include <stdio.h>
#include <string.h>

#include "backend/docker/engine/seccomp_json.h"
#include "backend/docker/guard.h"
#include "backend/kit/protect/journal.h"
#include "base/sys/clock.h"
#include "base/sys/wait.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

#define BODY_MAX ((size_t)4 << 20)
#define TRIES 3
#define IPV6_SWITCH "/proc/sys/net/ipv6/conf/all/disable_ipv6"

/* ---- the runtime ---- */

static int no_runtime(const char *name, const struct jread *runtimes, struct err *e)
{
	static const struct {
		const char *prefix, *hint;
	} hints[] = {
		{ "runsc", "gVisor: apt install runsc, add it to \"runtimes\" in "
			   "/etc/docker/daemon.json, restart docker" },
		{ "kata", "Kata Containers: install kata-runtime (needs /dev/kvm), add it to "
			  "\"runtimes\" in /etc/docker/daemon.json, restart docker" },
	};
	CLEANUP(buf) struct buf has = BUF_INIT(160);

	for (void *it = jread_first(runtimes); it; it = jread_next(runtimes, it))
		buf_printf(&has, "%s%s", has.len ? ", " : "", jread_key(it));
	(void)err_set(e, ERR_UNAVAILABLE, ENOENT,
		      "runtime '%.64s' is not registered with the engine (it has: %s)", name,
		      buf_str(&has));
	for (size_t i = 0; i < ARRAY_LEN(hints); i++)
		if (str_starts(name, hints[i].prefix))
			return err_hint(e, "%s", hints[i].hint);
	return err_hint(e, "add it to \"runtimes\" in /etc/docker/daemon.json and restart docker");
}

/* A rootless Docker without control groups takes every limit, writes it down, and keeps none. */
int engine_suits(struct engine *g, const char *runtime, bool *no_cgroups, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	const struct engine_call q = { .method = "GET", .path = "/info" };
	bool doubtful = g->rootless && !g->podman;
	const struct jread *runtimes;
	const char *driver;

	*no_cgroups = false;
	if (!runtime && !doubtful)
		return 0;
	if (engine_ask(g, &q, &a, e) < 0)
		return -e->code;
	runtimes = jread_get(a.json, "Runtimes");
	driver = jread_str(a.json, "CgroupDriver");
	/* A query that fails is an error, never a pass. */
	if (a.status != 200 || !runtimes)
		return err_set(e, ERR_UNAVAILABLE, EIO, "the engine does not tell its runtimes: %s",
			       a.message);
	*no_cgroups = doubtful && (!driver || str_eq(driver, "none"));
	return !runtime || jread_get(runtimes, runtime) ? 0 : no_runtime(runtime, runtimes, e);
}

/* The engine would make a place for it in a tree of the host's, as root, and leave it there. */
static int check_volumes(struct guard *g, struct err *e)
{
	const struct box_plan *b = g->plan->box;

	for (size_t i = 0; i < g->image.volume_count; i++) {
		const char *path = g->image.volumes[i];

		for (size_t k = 0; k < b->op_count; k++)
			if (b->ops[k].kind == OP_BIND && path_under(path, b->ops[k].dst) &&
			    !str_eq(path, b->ops[k].dst)) {
				g->unfit = docker_is_work(g->plan, b->ops[k].dst);
				return err_refuse(
					e, ERR_POLICY, EPERM,
					b->ops[k].stored
						? "choose another image, or set limits.tmp, so "
						  "that HOME and /tmp are in memory"
						: "choose another target for it, such as --set "
						  "workspace.target=/work, or another image",
					"image '%.100s' has a volume at '%.100s', in what "
					"is mounted at '%s'",
					g->plan->image, path, b->ops[k].dst);
			}
	}
	return 0;
}

/* ---- the files this run brings along ---- */

static int write_names(struct guard *g, struct err *e)
{
	const struct box_plan *b = g->plan->box;
	CLEANUP(buf) struct buf text = BUF_INIT(4096);
	uint32_t uid = g->plan->uid, gid = g->plan->gid;

	buf_puts(&text, "root:x:0:0:root:/root:/bin/sh\n");
	if (uid)
		buf_printf(&text, "%s:x:%u:%u:%s:%s:/bin/sh\n", b->user_name, uid, gid,
			   b->user_name, b->home);
	buf_puts(&text, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
	if (ledger_file(&g->ledger, "passwd", buf_str(&text), e) < 0)
		return -e->code;
	text.len = 0;
	buf_puts(&text, "root:x:0:\n");
	if (gid)
		buf_printf(&text, "%s:x:%u:\n", b->user_name, gid);
	buf_puts(&text, "nogroup:x:65534:\n");
	if (ledger_file(&g->ledger, "group", buf_str(&text), e) < 0)
		return -e->code;
	return 0;
}

/* Podman takes the profile as a file. */
static int write_profile(struct guard *g, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(BODY_MAX);
	struct json j;

	json_init(&j, &text, false);
	seccomp_json((enum seccomp_profile)g->plan->box->profile, &j);
	if (ledger_file(&g->ledger, "seccomp", buf_str(&text), e) < 0 || !docker_has_door(g->plan))
		return -e->code;
	text.len = 0;
	json_init(&j, &text, false);
	seccomp_json_door(&j);
	return ledger_file(&g->ledger, "filter", buf_str(&text), e);
}

/* In a folder that is the caller's alone; the engine binds the files themselves. */
static int write_files(struct guard *g, struct err *e)
{
	const struct box_plan *b = g->plan->box;

	if ((g->plan->user == DOCKER_USER_IDS && write_names(g, e) < 0) ||
	    (g->plan->git && ledger_file(&g->ledger, "git", g->plan->git, e) < 0))
		return -e->code;
	if (g->plan->ssh.config && (ledger_file(&g->ledger, "ssh", g->plan->ssh.config, e) < 0 ||
				    ledger_file(&g->ledger, "known", g->plan->ssh.known, e) < 0))
		return -e->code;
	if (b->shows_code && ledger_bytes(&g->ledger, "code", b->code, b->code_size, e) < 0)
		return -e->code;
	if (docker_has_door(g->plan) && door_write_files(g, e) < 0)
		return -e->code;
	return g->engine.podman ? write_profile(g, e) : 0;
}

/* ---- the container ---- */

static void fill_body(struct guard *g, body_fn *body, struct buf *b)
{
	char files[4200], profile[4220], filter[4220];
	const struct body_run r = { .id = g->s->id,
				    .nonce = g->nonce,
				    .podman = g->engine.podman,
				    .rootless = g->engine.rootless,
				    .api = g->engine.api,
				    .tty = g->s->tty,
				    .rows = g->s->rows,
				    .cols = g->s->cols,
				    .files = files,
				    .seccomp = g->engine.podman ? profile : NULL,
				    .network = g->bridge.name[0] ? g->bridge.name : BRIDGE_ROOTLESS,
				    .volumes = g->image.volumes,
				    .volume_count = g->image.volume_count,
				    .labels = &g->image.labels,
				    .image_id = g->image.id,
				    .work = g->work[0] ? g->work : NULL,
				    .home = g->home[0] ? g->home : NULL,
				    .door = g->door.container,
				    .helper = g->door.image,
				    .filter = g->engine.podman ? filter : NULL,
				    .gate = g->gate,
				    .gate_inside = g->gate_inside,
				    .no_ipv6 = access(IPV6_SWITCH, F_OK) < 0,
				    .bundles = g->door.bundles,
				    .bundle_count = g->door.bundle_count,
				    .line = g->s->line };
	struct json j;

	(void)snprintf(files, sizeof(files), "%s/%s", g->ledger.path, g->s->id);
	(void)snprintf(profile, sizeof(profile), "%s.seccomp", files);
	(void)snprintf(filter, sizeof(filter), "%s.filter", files);
	json_init(&j, b, false);
	body(g->plan, &r, &j);
}

/* The engine says what it could not do, and goes on. A limit somebody wrote must hold. */
static int check_warnings(struct guard *g, const struct jread *warnings, struct err *e)
{
	static const struct {
		const char *word;
		enum limit limit;
	} known[] = { { "PIDs limit discarded", LIMIT_PIDS },
		      { "pids limit", LIMIT_PIDS },
		      { "memory limit capabilities", LIMIT_MEMORY },
		      { "Limitation discarded", LIMIT_MEMORY },
		      { "CPU cfs", LIMIT_CPUS },
		      { "CPU shares", LIMIT_CPU_SHARES } };

	for (size_t i = 0; i < jread_count(warnings); i++) {
		const char *text = jread_text(jread_at(warnings, i));

		for (size_t k = 0; text && k < ARRAY_LEN(known); k++) {
			if (!strcasestr(text, known[k].word))
				continue;
			if (plan_wrote(g->plan->box, known[k].limit))
				return err_refuse(
					e, ERR_UNAVAILABLE, ENOTSUP,
					"leave the limit out, or use --backend native",
					"the engine cannot enforce the limit on %s: %.200s",
					limit_name(known[k].limit), text);
			g->end.container.unenforced |= 1U << known[k].limit;
		}
	}
	return 0;
}

static int create_failed(const struct guard *g, const struct engine_answer *a, struct err *e)
{
	if (a->status == 404 && strcasestr(a->message, "image")) {
		(void)err_set(e, ERR_UNAVAILABLE, ENOENT, "Image '%s' not found", g->plan->image);
		return err_hint(e,
				"it was here a moment ago: brig image pull %.100s --backend docker",
				g->plan->image);
	}
	if (g->work[0] && strstr(a->message, g->work)) /* it does not see what was mounted there */
		return docker_not_writable(g->plan, e);
	(void)err_set(e, ERR_UNAVAILABLE, EIO, "the engine refuses the container: %s", a->message);
	if (strcasestr(a->message, "bind source path does not exist") ||
	    strcasestr(a->message, "no such file or directory"))
		return err_hint(e, "the engine must see the same files as brig: one in a virtual "
				   "machine or container does not");
	if (strcasestr(a->message, "memory limit"))
		return err_hint(e, "raise --memory");
	if (strcasestr(a->message, "CPUs"))
		return err_hint(e, "lower --cpus");
	return err_hint(e, "the engine's log says more: journalctl -u docker");
}

/* Worth another try: the engine or its disk is busy. Never what it refuses on principle. */
static bool is_transient(const struct engine_answer *a)
{
	static const char *const words[] = {
		"temporarily unavailable", "resource busy",    "i/o timeout",
		"deadline exceeded",       "connection reset", "try again"
	};

	if (a->status == 503 || a->status == 429)
		return true;
	for (size_t i = 0; a->status >= 500 && i < ARRAY_LEN(words); i++)
		if (strcasestr(a->message, words[i]))
			return true;
	return false;
}

static int create_once(struct guard *g, const char *suffix, const char *body,
		       char container[CONTAINER_MAX], bool *again, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = {
		.method = "POST", .path = path, .body = body, .ms = ENGINE_SLOW_MS
	};
	const char *id;

	(void)snprintf(path, sizeof(path), "/containers/create?name=brig-%s%s", g->s->id, suffix);
	ledger_say(&g->ledger, LEDGER_MAKING);
	if (engine_ask(&g->engine, &q, &a, e) < 0) {
		/* It may have been made all the same: the next try needs the name. */
		*again = e->code == ECONNRESET || e->code == ECONNREFUSED || e->code == EPIPE;
		return -e->code;
	}
	ledger_say(&g->ledger, LEDGER_QUIET);
	id = jread_str(a.json, "Id");
	*again = is_transient(&a);
	if (a.status != 201 || !id || strlen(id) >= CONTAINER_MAX ||
	    strspn(id, "0123456789abcdef") != strlen(id))
		return create_failed(g, &a, e);
	memcpy(container, id, strlen(id) + 1);
	*again = false;
	return check_warnings(g, jread_get(a.json, "Warnings"), e);
}

/* A try that failed may have made it all the same. Nobody else knows the name. */
static void remove_try(struct guard *g, const char *suffix)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "DELETE", .path = path };
	struct err ignored;

	(void)snprintf(path, sizeof(path), "/containers/brig-%s%s?force=1&v=1", g->s->id, suffix);
	(void)engine_ask(&g->engine, &q, &a, &ignored);
}

int guard_create(struct guard *g, const char *suffix, body_fn *write_body,
		 char container[CONTAINER_MAX], struct err *e)
{
	CLEANUP(buf) struct buf body = BUF_INIT(BODY_MAX);
	bool again = true;
	int r = -EIO;

	fill_body(g, write_body, &body);
	if (body.failed)
		return err_nomem(e);
	for (int i = 0; i < TRIES && again; i++) {
		if (i) {
			wait_moment(100U << (2 * i));
			remove_try(g, suffix);
		}
		r = create_once(g, suffix, buf_str(&body), container, &again, e);
	}
	return r;
}

/* ---- is it what was asked for? ---- */

static int not_taken(const char *what, struct err *e)
{
	return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
			  "use an engine that keeps to it, or --backend native",
			  "the engine made the container without %s: it is not started", what);
}

static bool lists(const struct jread *array, const char *prefix)
{
	for (size_t i = 0; i < jread_count(array); i++) {
		const char *text = jread_text(jread_at(array, i));

		if (text && str_starts(text, prefix))
			return true;
	}
	return false;
}

/* Docker says ALL as it was told; Podman lists them one by one. */
static bool drops_all(const struct guard *g, const struct jread *host)
{
	const struct jread *drop = jread_get(host, "CapDrop"), *add = jread_get(host, "CapAdd");

	if (g->engine.podman)
		return jread_count(drop) >= 10 && !jread_count(add);
	if (docker_lends(g->plan, g->engine.rootless, false))
		return lists(drop, "ALL") && jread_count(add) == 1 &&
		       (lists(add, DOCKER_LENT) || lists(add, "CAP_" DOCKER_LENT));
	return lists(drop, "ALL") && !jread_count(add);
}

/* A limit somebody wrote must hold; a default that does not is reported. A rootless engine on
 * control groups v1 has none at all. */
static int check_limits(struct guard *g, const struct jread *host, struct err *e)
{
	const struct tuning *t = &g->plan->tune;
	const struct {
		const char *key;
		uint64_t want;
		enum limit limit;
	} all[] = { { "PidsLimit", t->pids, LIMIT_PIDS },
		    { "Memory", t->memory, LIMIT_MEMORY },
		    { "NanoCpus", t->nano_cpus, LIMIT_CPUS },
		    { "CpuShares", t->cpu_shares, LIMIT_CPU_SHARES } };

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		bool taken = (uint64_t)jread_int(host, all[i].key, 0) == all[i].want;

		if (!all[i].want || (taken && !g->no_cgroups))
			continue;
		if (plan_wrote(g->plan->box, all[i].limit))
			return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
					  "a rootless engine needs control groups v2; or leave "
					  "the limit out",
					  "the engine cannot enforce the limit on %s",
					  limit_name(all[i].limit));
		g->end.container.unenforced |= 1U << all[i].limit;
	}
	return 0;
}

static bool has_network(const struct guard *g, const char *mode)
{
	char joined[CONTAINER_MAX + 16];

	if (g->plan->box->network == NETWORK_HOST)
		return true;
	(void)snprintf(joined, sizeof(joined), "container:%s", g->door.container);
	return mode && str_eq(mode, docker_has_door(g->plan) ? joined : "none");
}

/* An engine may know less than its API: what it wrote down is compared with what was asked. */
static int verify(struct guard *g, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	const struct tuning *t = &g->plan->tune;
	const struct jread *host;
	char path[128];
	const struct engine_call q = { .method = "GET", .path = path };

	(void)snprintf(path, sizeof(path), "/containers/%s/json", g->container);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	host = jread_get(a.json, "HostConfig");
	if (a.status != 200 || !host)
		return not_taken("telling what it made", e);
	if (jread_bool(host, "Privileged") || !drops_all(g, host))
		return not_taken("dropping all capabilities", e);
	if (!lists(jread_get(host, "SecurityOpt"), "no-new-privileges"))
		return not_taken("no-new-privileges", e);
	if (!lists(jread_get(host, "SecurityOpt"), "seccomp="))
		return not_taken("brig's system-call filter", e);
	if (jread_bool(host, "ReadonlyRootfs") != t->read_only)
		return not_taken("a read-only root", e);
	if (!has_network(g, jread_str(host, "NetworkMode")))
		return not_taken("closing the network", e);
	return check_limits(g, host, e);
}

/* ---- running it ---- */

static int start_failed(const struct guard *g, const char *text, struct err *e);

/* Podman makes the container's processes when it is attached to, and fails here instead. */
static int attach_failed(const struct guard *g, struct client *c, uint64_t deadline, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(65536);
	CLEANUP(jread) struct jread *v = NULL;
	char text[256];

	(void)client_read_all(c, &b, deadline, e);
	(void)jread_parse(b.data, b.len, &v, e);
	engine_message(v, text, sizeof(text));
	return start_failed(g, text, e);
}

static int set_up_attach(struct guard *g, struct err *e)
{
	CLEANUP(client) struct client *c = NULL;
	uint64_t deadline = clock_us() + (uint64_t)ENGINE_CALL_MS * 1000;
	const struct http1_answer *a;
	char path[160];
	const struct engine_call q = { .method = "POST", .path = path };

	(void)snprintf(path, sizeof(path),
		       "/containers/%s/attach?stream=1&stdout=1&stderr=1&stdin=1", g->container);
	ledger_say(&g->ledger, LEDGER_STARTING);
	if (engine_connect(&g->engine, ENGINE_CALL_MS, &c, e) < 0 ||
	    engine_send(&g->engine, c, &q, "tcp", deadline, e) < 0 ||
	    client_answer(c, deadline, &a, e) < 0)
		return err_wrap(e, "cannot attach to the container");
	ledger_say(&g->ledger, LEDGER_QUIET);
	if (a->framing != HTTP1_UPGRADED)
		return attach_failed(g, c, deadline, e);
	g->attach = client_hijack(c, &g->early).fd;
	return 0;
}

/* What some runtimes cannot do, gVisor for one: put a device over a socket or a pipe. */
static const char *first_hidden(const struct box_plan *p)
{
	for (size_t i = 0; i < p->op_count; i++)
		if (p->ops[i].kind == OP_HIDE && !p->ops[i].skip)
			return p->ops[i].dst;
	return NULL;
}

static int start_failed(const struct guard *g, const char *text, struct err *e)
{
	const char *hidden = g->plan->runtime ? first_hidden(g->plan->box) : NULL;

	(void)err_refuse(e, ERR_UNAVAILABLE, EIO,
			 g->engine.podman ? "the engine's log says more: journalctl -u podman"
					  : "the engine's log says more: journalctl -u docker",
			 "the engine cannot start the container: %s", text);
	return hidden ? err_hint(e, "if '%s' cannot cover sockets and pipes: move '%.80s' away",
				 g->plan->runtime, hidden)
		      : -e->code;
}

static int set_up_start(struct guard *g, struct err *e)
{
	CLEANUP(engine_answer) struct engine_answer a = { 0 };
	char path[128];
	const struct engine_call q = { .method = "POST", .path = path, .ms = ENGINE_SLOW_MS };

	(void)snprintf(path, sizeof(path), "/containers/%s/start", g->container);
	ledger_say(&g->ledger, LEDGER_STARTING);
	if (engine_ask(&g->engine, &q, &a, e) < 0)
		return -e->code;
	ledger_say(&g->ledger, LEDGER_QUIET);
	if (a.status >= 300)
		return start_failed(g, a.message, e);
	g->started = true;
	return 0;
}

static int wait_for_end(struct guard *g, struct err *e)
{
	char path[128];
	const struct engine_call q = { .method = "POST", .path = path };

	(void)snprintf(path, sizeof(path), "/containers/%s/wait?condition=not-running",
		       g->container);
	if (engine_connect(&g->engine, ENGINE_CALL_MS, &g->wait, e) < 0)
		return -e->code;
	return engine_send(&g->engine, g->wait, &q, NULL,
			   clock_us() + (uint64_t)ENGINE_CALL_MS * 1000, e);
}

static bool on_pull(void *arg, const char *line)
{
	struct guard *g = arg;
	bool show = line && (g->s->progress || !g->told_pull);

	g->told_pull |= line != NULL;
	return guard_note(g, show ? line : NULL);
}

static int given_up(struct guard *g, struct err *e)
{
	return guard_note(g, NULL) ? err_set(e, ERR_INTERNAL, ECANCELED, "the run was given up")
				   : 0;
}

/* A rootless Docker's cable ends in a namespace that brig cannot look into. */
static int make_bridge(struct guard *g, struct err *e)
{
	if (g->engine.rootless && g->engine.podman)
		return 0;
	if (g->engine.rootless)
		return err_refuse(e, ERR_UNAVAILABLE, ENOTSUP,
				  "use --network proxy, or Podman, or a Docker of root's",
				  "network bridge cannot close this host and its LAN on a rootless "
				  "Docker");
	ledger_say(&g->ledger, LEDGER_MAKING);
	if (bridge_make(&g->engine, g->s->id, g->nonce, &g->bridge, e) < 0)
		return -e->code;
	ledger_say(&g->ledger, LEDGER_QUIET);
	return 0;
}

/* Not only as long as somebody of us lives: the engine is about to be asked. */
static int keep_placeholders(const struct guard *g, struct err *e)
{
	int r = g->s->hold < 0 ? 0 : journal_keep(&g->plan->box->workspace_ident, g->s->id);

	return r < 0 ? err_errno(e, r, "cannot hold the placeholders") : 0;
}

/* IronClaw's own image is in no registry: its page says how it is built. */
static int get_image(struct guard *g, struct err *e)
{
	const struct backend_plan *p = g->plan;

	if (image_get(&g->engine, p->image, p->auto_pull, on_pull, g, &g->image, e) == 0)
		return 0;
	if (!p->ironclaw || !str_starts(e->what, "Image '"))
		return -e->code;
	return err_hint(
		e, "brig image build %.100s, or docker build -t %.100s -f Dockerfile.worker .%s",
		p->image, p->image, p->auto_pull ? "" : ", or SANDBOX_AUTO_PULL=true");
}

typedef int fit_fn(struct guard *g, struct err *e);

/* Where the image is against it the workspace goes elsewhere, if nobody wrote where it is to be. */
static int fit(struct guard *g, fit_fn *check, struct err *e)
{
	char note[sizeof(e->what) + 64];
	int r = check(g, e);

	if (r == 0 || !g->unfit || !docker_plan_move(g->s->plan))
		return r;
	g->unfit = false;
	g->moved = true;
	(void)snprintf(note, sizeof(note), "%s: the workspace is at '" WORKSPACE_PLACE "' inside",
		       e->what);
	(void)guard_note(g, note);
	*e = (struct err){ 0 };
	return check(g, e);
}

/* In a rootless Docker the caller is root inside, and nobody else can use the caller's files. */
static int knows_ids(const struct guard *g, struct err *e)
{
	if (!g->plan->companion || !docker_is_owner(g->plan, g->engine.rootless, g->engine.podman))
		return 0;
	return err_refuse(
		e, ERR_UNAVAILABLE, ENOTSUP, "use Podman, or a Docker of root's",
		"companions cannot be had on a rootless Docker: they would be root inside");
}

int guard_set_up(struct guard *g, struct err *e)
{
	bool door = docker_has_door(g->plan);

	if (gate_find(g, e) < 0 || engine_open(&g->engine, e) < 0 ||
	    engine_suits(&g->engine, g->plan->runtime, &g->no_cgroups, e) < 0)
		return -e->code;
	if (knows_ids(g, e) < 0 || get_image(g, e) < 0 || fit(g, check_volumes, e) < 0 ||
	    given_up(g, e) < 0)
		return -e->code;
	if (ledger_open(&g->ledger, g->s->id, g->nonce, g->engine.path, e) < 0 ||
	    fit(g, targets_check, e) < 0 || keep_placeholders(g, e) < 0 || write_files(g, e) < 0)
		return -e->code;
	if ((g->plan->box->network == NETWORK_BRIDGE && make_bridge(g, e) < 0) ||
	    work_show(g, e) < 0 || (door && door_begin(g, e) < 0) ||
	    (g->s->line && line_listen(g, e) < 0))
		return -e->code;
	if (guard_create(g, "", docker_body, g->container, e) < 0 || verify(g, e) < 0 ||
	    work_check(g, e) < 0 || (door && door_wait(g, e) < 0) || set_up_attach(g, e) < 0 ||
	    given_up(g, e) < 0)
		return -e->code;
	if (set_up_start(g, e) < 0 || wait_for_end(g, e) < 0 || gate_pass(g, e) < 0 ||
	    (g->s->line && line_take(g, e) < 0) || (door && door_hand_over(g, e) < 0) ||
	    (g->plan->companion && guard_tell_image(g, e) < 0))
		return -e->code;
	/* Engines before 23 take no size at creation: a quick command sees none at first. */
	if (g->s->tty)
		guard_resize(g);
	guard_watch_hits(g);
	guard_watch_writes(g);
	if (!own_root(g) && g->plan->root_asked && !g->plan->companion)
		(void)guard_note(g, DOCKER_ROOTS_OWN);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/image_record.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "model/settings/paths.h"

enum { WORDS_MOST = 4096, VALUES_MOST = 65536, NEST_MOST = 16, WORD_MOST = 64 << 10 };

static int record_refuse(struct err *e, const char *what)
{
	return err_set(e, ERR_POLICY, EBADMSG, "the image is refused: %s", what);
}

static const char *const no_words[] = { NULL };

/* An array of strings, or null; each of them is told to `fits`. */
static int take_words(struct arena *a, const struct jread *v, const char *what,
		      bool (*fits)(const char *word), const char *const **ret, size_t *count,
		      struct err *e)
{
	size_t n = jread_count(v);
	const char **all;

	*ret = no_words;
	if (!v || jread_kind(v) == JREAD_NULL)
		return 0;
	if (jread_kind(v) != JREAD_ARRAY || n > WORDS_MOST)
		return record_refuse(e, what);
	all = arena_alloc(a, (n + 1) * sizeof(*all));
	if (!all)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		const char *word = jread_text(jread_at(v, i));

		if (!word || strlen(word) > WORD_MOST || (fits && !fits(word)))
			return record_refuse(e, what);
		all[i] = arena_strdup(a, word);
		if (!all[i])
			return err_nomem(e);
	}
	*ret = all;
	if (count)
		*count = n;
	return 0;
}

/* The keys of an object whose values say nothing. */
static int take_keys(struct arena *a, const struct jread *v, const char *what,
		     bool (*fits)(const char *word), const char *const **ret, struct err *e)
{
	const char **all = NULL;
	size_t n = 0;

	*ret = no_words;
	if (!v || jread_kind(v) == JREAD_NULL)
		return 0;
	if (jread_kind(v) != JREAD_OBJECT)
		return record_refuse(e, what);
	for (void *it = jread_first(v); it; it = jread_next(v, it)) {
		const char **slot;

		if (n >= WORDS_MOST || !fits(jread_key(it)))
			return record_refuse(e, what);
		slot = ARENA_PUSH(a, all, n);
		if (!slot || !(*slot = arena_strdup(a, jread_key(it))))
			return err_nomem(e);
	}
	if (n && !ARENA_PUSH(a, all, n))
		return err_nomem(e);
	if (n)
		*ret = all;
	return 0;
}

static bool is_variable(const char *word)
{
	size_t n = strcspn(word, "=");

	return n && word[n] == '=';
}

static bool is_any(const char *word)
{
	(void)word;
	return true;
}

static bool is_port(const char *word)
{
	return strlen(word) < 32 && !str_has_control(word);
}

/* Below these is the kernel, and the root is the root. */
static bool is_volume(const char *path)
{
	static const char *const never[] = { "/proc", "/sys", "/dev" };

	if (path[0] != '/' || !path[1] || strlen(path) >= PATH_MAX || str_has_control(path) ||
	    strstr(path, "/../") || strstr(path, "//") || str_ends_nocase(path, "/..") ||
	    strstr(path, "/./") || str_ends_nocase(path, "/."))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (path_under(path, never[i]))
			return false;
	return true;
}

static bool is_layer(const char *word)
{
	return strlen(word) == 64 && strspn(word, "0123456789abcdef") == 64;
}

static const char *take_text(struct arena *a, const struct jread *v, const char *key)
{
	const char *text = jread_str(v, key);

	return arena_strdup(a,
			    text && strlen(text) < PATH_MAX && !str_has_control(text) ? text : "");
}

/* "SIGTERM", "TERM" or "15". */
static int signal_of(const char *text)
{
	static const struct {
		const char *name;
		int number;
	} names[] = { { "HUP", SIGHUP },   { "INT", SIGINT },    { "QUIT", SIGQUIT },
		      { "KILL", SIGKILL }, { "USR1", SIGUSR1 },  { "USR2", SIGUSR2 },
		      { "TERM", SIGTERM }, { "WINCH", SIGWINCH } };
	uint64_t n;

	if (num_count(text, &n) == 0)
		return n < 65 ? (int)n : 0;
	text += str_starts(text, "SIG") ? 3 : 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(text, names[i].name))
			return names[i].number;
	return 0;
}

static const char *take_folder(struct arena *a, const char *text)
{
	return text && text[0] == '/' && strlen(text) < PATH_MAX && !str_has_control(text)
		       ? arena_strdup(a, text)
		       : NULL;
}

static int take_config(struct arena *a, const struct jread *c, struct image_record *r,
		       struct err *e)
{
	const char *stop = jread_str(c, "StopSignal");
	struct image_root *i = &r->root;

	if (take_words(a, jread_get(c, "Env"), "a variable of its makes no sense", is_variable,
		       &i->env, NULL, e) < 0 ||
	    take_words(a, jread_get(c, "Entrypoint"), "its entry point makes no sense", NULL,
		       &i->entrypoint, NULL, e) < 0 ||
	    take_words(a, jread_get(c, "Cmd"), "its command makes no sense", NULL, &i->cmd, NULL,
		       e) < 0 ||
	    take_keys(a, jread_get(c, "Volumes"), "it has a volume whose path makes no sense",
		      is_volume, &i->volumes, e) < 0 ||
	    take_keys(a, jread_get(c, "ExposedPorts"), "it has a port that makes no sense", is_port,
		      &r->ports, e) < 0)
		return -e->code;
	i->workdir = take_folder(a, jread_str(c, "WorkingDir"));
	i->user = take_text(a, c, "User");
	i->stop_signal = stop ? signal_of(stop) : 0;
	i->passwd = i->group = "";
	return i->user ? 0 : err_nomem(e);
}

static int take_diffs(struct arena *a, const struct jread *v, struct image_record *r, struct err *e)
{
	if (take_words(a, v, "what it says of its layers makes no sense", ref_is_digest, &r->diffs,
		       &r->diff_count, e) < 0)
		return -e->code;
	if (r->diff_count == 0)
		return record_refuse(e, "it has no layer");
	if (r->diff_count > IMAGE_DIFFS_MAX)
		return record_refuse(e, "it has more than 128 layers");
	return 0;
}

static struct jread *record_parse(const char *text, size_t n, struct err *e)
{
	struct jread *v = NULL;

	if (!jread_within(text, n, NEST_MOST, VALUES_MOST) || jread_parse(text, n, &v, e) < 0 ||
	    jread_kind(v) != JREAD_OBJECT) {
		(void)record_refuse(e, "its configuration is no JSON, or too large");
		return jread_free(v);
	}
	return v;
}

int image_config_read(const char *text, size_t n, struct arena *a, struct image_record *ret,
		      struct err *e)
{
	CLEANUP(jread) struct jread *v = record_parse(text, n, e);
	struct image_record r = { .manifest = "" };

	if (!v)
		return -e->code;
	r.architecture = take_text(a, v, "architecture");
	r.os = take_text(a, v, "os");
	r.variant = take_text(a, v, "variant");
	if (!r.architecture || !r.os || !r.variant)
		return err_nomem(e);
	r.root.layers = no_words;
	if (take_config(a, jread_get(v, "config"), &r, e) < 0 ||
	    take_diffs(a, jread_get(jread_get(v, "rootfs"), "diff_ids"), &r, e) < 0)
		return -e->code;
	*ret = r;
	return 0;
}

/* ---- as the store has it ---- */

void image_record_write(const struct image_record *r, struct buf *out)
{
	const struct image_root *i = &r->root;
	struct json j;

	json_init(&j, out, false);
	json_object(&j);
	json_kstr(&j, "id", i->id ? i->id : "");
	json_kstr(&j, "manifest", r->manifest);
	json_kstr(&j, "architecture", r->architecture);
	json_kstr(&j, "os", r->os);
	json_kstr(&j, "variant", r->variant);
	json_ku64(&j, "imported", r->imported);
	json_ku64(&j, "bytes", r->bytes);
	json_ku64(&j, "dropped", r->dropped);
	json_kstrs(&j, "layers", i->layers);
	json_kstrs(&j, "diffs", r->diffs);
	json_kstrs(&j, "env", i->env);
	json_kstrs(&j, "entrypoint", i->entrypoint);
	json_kstrs(&j, "cmd", i->cmd);
	json_kstrs(&j, "volumes", i->volumes);
	json_kstrs(&j, "ports", r->ports);
	json_kstr(&j, "workdir", i->workdir ? i->workdir : "");
	json_kstr(&j, "user", i->user);
	if (i->has_user) {
		json_ku64(&j, "uid", i->uid);
		json_ku64(&j, "gid", i->gid);
	}
	json_ku64(&j, "stop_signal", (uint64_t)i->stop_signal);
	json_kstr(&j, "passwd", i->passwd);
	json_kstr(&j, "group", i->group);
	json_object_end(&j);
}

static bool is_number(int64_t n)
{
	return n >= 0 && n < UINT32_MAX;
}

static int take_root(struct arena *a, const struct jread *v, struct image_record *r, struct err *e)
{
	static const char wrong[] = "its record is not what brig writes";
	struct image_root *i = &r->root;
	const char *passwd = jread_str(v, "passwd"), *group = jread_str(v, "group");
	int64_t uid = jread_int(v, "uid", -1), gid = jread_int(v, "gid", -1),
		stop = jread_int(v, "stop_signal", 0);

	if (take_words(a, jread_get(v, "layers"), wrong, is_layer, &i->layers, &i->layer_count, e) <
		    0 ||
	    take_words(a, jread_get(v, "env"), wrong, is_variable, &i->env, NULL, e) < 0 ||
	    take_words(a, jread_get(v, "entrypoint"), wrong, is_any, &i->entrypoint, NULL, e) < 0 ||
	    take_words(a, jread_get(v, "cmd"), wrong, is_any, &i->cmd, NULL, e) < 0 ||
	    take_words(a, jread_get(v, "volumes"), wrong, is_volume, &i->volumes, NULL, e) < 0 ||
	    take_words(a, jread_get(v, "ports"), wrong, is_port, &r->ports, NULL, e) < 0)
		return -e->code;
	i->id = take_text(a, v, "id");
	i->workdir = take_folder(a, jread_str(v, "workdir"));
	i->user = take_text(a, v, "user");
	i->has_user = is_number(uid) && is_number(gid) && uid > 0;
	i->uid = i->has_user ? (uint32_t)uid : 0;
	i->gid = i->has_user ? (uint32_t)gid : 0;
	i->stop_signal = stop > 0 && stop < 65 ? (int)stop : 0;
	i->passwd = arena_strdup(a, passwd ? passwd : "");
	i->group = arena_strdup(a, group ? group : "");
	return i->id && i->user && i->passwd && i->group ? 0 : err_nomem(e);
}

int image_record_read(const char *text, size_t n, bool whole, struct arena *a,
		      struct image_record *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = record_parse(text, n, e);
	struct image_record r = { 0 };

	if (!v || take_root(a, v, &r, e) < 0 || take_diffs(a, jread_get(v, "diffs"), &r, e) < 0)
		return -e->code;
	r.manifest = take_text(a, v, "manifest");
	r.architecture = take_text(a, v, "architecture");
	r.os = take_text(a, v, "os");
	r.variant = take_text(a, v, "variant");
	r.imported = (uint64_t)jread_int(v, "imported", 0);
	r.bytes = (uint64_t)jread_int(v, "bytes", 0);
	r.dropped = (uint64_t)jread_int(v, "dropped", 0);
	if (!r.manifest || !r.architecture || !r.os || !r.variant)
		return err_nomem(e);
	if (whole && (!ref_is_digest(r.root.id) || !r.root.layer_count ||
		      r.root.layer_count > IMAGE_LAYERS_MAX))
		return record_refuse(e, "its record is not what brig writes");
	*ret = r;
	return 0;
}

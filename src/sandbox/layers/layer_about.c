/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/layers/layer_about.c - whose a layer is, as JSON in its folder.
 *
 * `path` has the workspace's name in digits, since a name need not be text; `workspace` is for
 * people. */
#include <stdio.h>
#include <unistd.h>

#include "base/bytes/hex.h"
#include "base/bytes/jread.h"
#include "base/bytes/json.h"
#include "base/bytes/random.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "sandbox/layers/layer_internal.h"

static void put_time(struct json *j, const char *key, const struct timespec *t)
{
	json_kobject(j, key);
	json_key(j, "s");
	json_i64(j, t->tv_sec);
	json_ku64(j, "ns", (uint64_t)t->tv_nsec);
	json_object_end(j);
}

static void about_text(const struct layer_about *a, struct buf *b)
{
	char digits[2 * PATH_MAX + 1];
	size_t n = strlen(a->workspace);
	struct json j;

	hex_encode((const unsigned char *)a->workspace, n, digits);
	digits[2 * n] = '\0';
	json_init(&j, b, false);
	json_object(&j);
	json_kstr(&j, "run", a->id);
	if (a->sandbox[0]) {
		json_kstr(&j, "sandbox", a->sandbox);
		json_kstr(&j, "boot", a->boot);
	}
	json_kstr(&j, "workspace", a->workspace);
	json_kstr(&j, "path", digits);
	json_ku64(&j, "dev", a->dev);
	json_ku64(&j, "ino", a->ino);
	put_time(&j, "made", &a->made);
	put_time(&j, "start", &a->start);
	json_kbool(&j, "same_place", a->same_place);
	json_ku64(&j, "uid", a->disk_uid);
	json_ku64(&j, "gid", a->disk_gid);
	json_kbool(&j, "root", a->by_root);
	json_ku64(&j, "began", (uint64_t)a->began);
	json_ku64(&j, "began_ns", (uint64_t)a->began_ns);
	if (a->finished) {
		json_ku64(&j, "changed", a->changed);
		json_ku64(&j, "bytes", a->bytes);
		json_kbool(&j, "more", a->more);
		json_ku64(&j, "finished", (uint64_t)a->ended);
	}
	json_object_end(&j);
	buf_putc(b, '\n');
}

int layer_about_draft(int folder, const struct layer_about *a, char name[33], struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(LAYER_ABOUT_MAX);
	CLEANUP(fd) int fd = -1;
	int r;

	if (random_hex(name, 33, e) < 0)
		return -e->code;
	about_text(a, &b);
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : b.failed ? -ENOMEM : fd_write_all(fd, buf_str(&b), b.len);
	if (r < 0 && fd >= 0)
		(void)unlinkat(folder, name, 0);
	return r < 0 ? err_errno(e, r, "cannot write down whose the layer is") : 0;
}

int layer_about_take(int folder, const char *name, struct err *e)
{
	if (renameat(folder, name, folder, LAYER_ABOUT) == 0)
		return 0;
	(void)err_sys(e, "cannot write down whose the layer is");
	(void)unlinkat(folder, name, 0);
	return -e->code;
}

static bool get_time(const struct jread *about, const char *key, struct timespec *ret)
{
	const struct jread *v = jread_get(about, key);
	int64_t ns = jread_int(v, "ns", -1);

	ret->tv_sec = (time_t)jread_int(v, "s", 0);
	ret->tv_nsec = (long)ns;
	return ns >= 0 && ns < 1000000000;
}

static bool get_path(const char *digits, char path[PATH_MAX])
{
	size_t n = digits ? strlen(digits) : 0;

	if (n < 2 || n % 2 || n / 2 >= PATH_MAX ||
	    hex_decode(digits, (unsigned char *)path, n / 2) < 0)
		return false;
	path[n / 2] = '\0';
	return path[0] == '/' && strlen(path) == n / 2;
}

/* A file of brig's own: what is not as it writes it is none. */
static bool about_take(const struct jread *v, struct layer_about *a)
{
	const char *id = jread_str(v, "run"), *sandbox = jread_str(v, "sandbox"),
		   *boot = jread_str(v, "boot");
	int64_t uid = jread_int(v, "uid", -1), gid = jread_int(v, "gid", -1);

	if (!id || !claim_is_id(id) || !get_path(jread_str(v, "path"), a->workspace) ||
	    !get_time(v, "made", &a->made) || !get_time(v, "start", &a->start) || uid < 0 ||
	    uid > UINT32_MAX || gid < 0 || gid > UINT32_MAX ||
	    (sandbox && strlen(sandbox) >= sizeof(a->sandbox)) ||
	    (boot && strlen(boot) >= sizeof(a->boot)))
		return false;
	(void)snprintf(a->id, sizeof(a->id), "%s", id);
	(void)snprintf(a->sandbox, sizeof(a->sandbox), "%s", sandbox ? sandbox : "");
	(void)snprintf(a->boot, sizeof(a->boot), "%s", boot ? boot : "");
	a->dev = (uint64_t)jread_int(v, "dev", 0);
	a->ino = (uint64_t)jread_int(v, "ino", 0);
	a->same_place = jread_bool(v, "same_place");
	a->disk_uid = (uint32_t)uid;
	a->disk_gid = (uint32_t)gid;
	a->by_root = jread_bool(v, "root");
	a->began = jread_int(v, "began", 0);
	a->began_ns = jread_int(v, "began_ns", 0);
	a->ended = jread_int(v, "finished", 0);
	a->finished = a->ended > 0;
	a->changed = (uint64_t)jread_int(v, "changed", 0);
	a->bytes = (uint64_t)jread_int(v, "bytes", 0);
	a->more = jread_bool(v, "more");
	return true;
}

int layer_about_read(int folder, struct layer_about *ret)
{
	CLEANUP(jread) struct jread *v = NULL;
	char text[LAYER_ABOUT_MAX];
	struct layer_about a = { 0 };
	struct err unused;
	ssize_t n = fd_read_file(folder, LAYER_ABOUT, text, sizeof(text));

	if (n <= 0 || jread_parse(text, (size_t)n, &v, &unused) < 0 || !about_take(v, &a))
		return -ENOENT;
	*ret = a;
	return 0;
}

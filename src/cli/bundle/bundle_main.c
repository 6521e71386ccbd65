/* SPDX-License-Identifier: Apache-2.0 */
/* cli/bundle/bundle_main.c - brig-bundle: the commands of `brig bundle`. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "apps/bundle/archive.h"
#include "apps/bundle/fetch.h"
#include "apps/bundle/pack.h"
#include "apps/bundle/ssh_sign.h"
#include "base/files/draft.h"
#include "base/files/exposed.h"
#include "base/files/fd.h"
#include "base/files/output.h"
#include "base/sys/program.h"
#include "base/text/num.h"
#include "base/text/str.h"
#include "cli/bundle/bundle_show.h"
#include "cli/bundle/bundle_words.h"
#include "cli/bundle/image_main.h"
#include "cli/cli.h"
#include "cli/own_options.h"
#include "model/files/trust.h"
#include "sandbox/health.h"

#define TIMEOUT_MS (10 * 60 * 1000)
#define JSON_MAX ((size_t)8 << 20)

struct bundle_asked {
	enum bundle_command command;
	const char *rest[2];
	int rest_count;
	const char *option[BUNDLE_OPTIONS]; /* "" where it takes no value; NULL: not given */
	uint64_t timeout_ms;
	bool json;
};

/* ---- words ---- */

static int find_command(const char *word, enum bundle_command *ret, struct err *e)
{
	const char *names[BUNDLE_COMMANDS + 1];
	const char *near;

	for (int i = 0; i < BUNDLE_COMMANDS; i++) {
		names[i] = bundle_commands[i].name;
		if (str_eq(word, names[i])) {
			*ret = (enum bundle_command)i;
			return 0;
		}
	}
	names[BUNDLE_COMMANDS] = NULL;
	near = str_nearest(word, names);
	(void)err_set(e, ERR_USAGE, EINVAL, "bundle knows no '%.60s'", word);
	return near ? err_hint(e, "did you mean 'brig bundle %s'?", near)
		    : err_hint(e, "brig bundle --help lists what it knows");
}

static int bundle_main_usage(const struct bundle_asked *a, struct err *e)
{
	const struct bundle_word *w = &bundle_commands[a->command];

	(void)err_set(e, ERR_USAGE, EINVAL, "bundle %s is missing something, or has too much",
		      w->name);
	return err_hint(e, "usage: brig bundle %s %s", w->name, w->usage);
}

static int take_option(struct bundle_asked *a, int argc, char **argv, int *at, struct err *e)
{
	const char *word = argv[*at];

	for (int i = 0; i < BUNDLE_OPTIONS; i++) {
		const struct bundle_option *o = &bundle_options[i];
		size_t n = strlen(o->name);
		bool alone = str_eq(word, o->name) || (o->alias && str_eq(word, o->alias));

		if (!(o->commands & 1U << a->command) ||
		    (!alone && !(o->arg && str_starts(word, o->name) && word[n] == '=')))
			continue;
		if (!o->arg)
			return a->option[i] = "", 0;
		if (alone && !own_option_follows(argc, argv, *at))
			return err_set(e, ERR_USAGE, EINVAL, "option '%s' needs a value", word);
		a->option[i] = alone ? argv[++*at] : word + n + 1;
		return 0;
	}
	(void)err_set(e, ERR_USAGE, EINVAL, "bundle %s does not accept '%.100s'",
		      bundle_commands[a->command].name, word);
	return err_hint(e, "brig bundle %s --help says what it takes",
			bundle_commands[a->command].name);
}

static int bundle_main_parse(struct bundle_asked *a, int argc, char **argv, struct err *e)
{
	const char *digest;
	bool plain = false;

	if (argc < 2 || find_command(argv[1], &a->command, e) < 0)
		return argc < 2 ? err_refuse(e, ERR_USAGE, EINVAL, "brig bundle --help",
					     "bundle needs a command")
				: -e->code;
	for (int i = 2; i < argc; i++) {
		if (!plain && str_eq(argv[i], "--"))
			plain = true;
		else if (!plain && argv[i][0] == '-') {
			if (take_option(a, argc, argv, &i, e) < 0)
				return -e->code;
		} else if (a->rest_count == bundle_commands[a->command].args)
			return bundle_main_usage(a, e);
		else
			a->rest[a->rest_count++] = argv[i];
	}
	if (a->rest_count != bundle_commands[a->command].args)
		return bundle_main_usage(a, e);
	a->json = a->option[BUNDLE_OPTION_JSON] != NULL;
	a->timeout_ms = TIMEOUT_MS;
	if (a->option[BUNDLE_OPTION_TIMEOUT] &&
	    (num_duration(a->option[BUNDLE_OPTION_TIMEOUT], &a->timeout_ms) < 0 || !a->timeout_ms ||
	     a->timeout_ms > (uint64_t)24 * 3600 * 1000))
		return err_set(e, ERR_USAGE, EINVAL, "--timeout needs a duration such as 5m");
	digest = a->option[BUNDLE_OPTION_DIGEST];
	if (digest && !ref_is_digest(digest))
		return err_refuse(e, ERR_USAGE, EINVAL, "brig bundle inspect prints one",
				  "--digest '%.80s' is not sha256: and 64 digits", digest);
	return 0;
}

/* ---- where bundles come from ---- */

static int read_signature(const char *file, struct sealed *c, struct err *e)
{
	char path[PATH_MAX];
	CLEANUP(fd) int fd = -1;

	if (snprintf(path, sizeof(path), "%s.sig", file) >= (int)sizeof(path))
		return 0;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "cannot open '%.200s'", path);
	return sealed_make(fd, SIGN_MAX, path, &c->signature, e);
}

static int bundle_main_read_file(const char *file, struct sealed *c, struct err *e)
{
	CLEANUP(fd) int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		(void)err_sys(e, "cannot open '%.200s'", file);
		return err_hint(e, "a file, or HOST[:PORT]/REPOSITORY[:TAG] of a registry");
	}
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_USAGE, EINVAL, "'%.200s' is not a file", file);
	return sealed_make(fd, ARCHIVE_MAX, file, &c->archive, e) < 0 ? -e->code
								      : read_signature(file, c, e);
}

static int fetch_of(const struct bundle_asked *a, const char *word, struct fetch_want *w,
		    struct err *e)
{
	*w = (struct fetch_want){ .plain = a->option[BUNDLE_OPTION_PLAIN] != NULL,
				  .progress = isatty(STDERR_FILENO) && !a->json,
				  .timeout_ms = a->timeout_ms };
	return ref_parse(word, &w->ref, e);
}

/* Whoever wrote what is in this folder may have put a file there that is called like a reference:
 * it would be installed in place of the registry's, and no digest in the reference would say so. */
static int open_sealed(const struct bundle_asked *a, const char *word, struct sealed *c,
		       struct err *e)
{
	struct fetch_want w;

	if (!ref_looks_like(word))
		return bundle_main_read_file(word, c, e);
	if (!str_starts(word, "oci://") && access(word, F_OK) == 0)
		return err_refuse(
			e, ERR_USAGE, EEXIST, "./FILE is a file, oci://REFERENCE a reference",
			"'%.150s' is a file here, and the form of a registry's reference", word);
	return fetch_of(a, word, &w, e) < 0 ? -e->code : fetch_pull(&w, c, e);
}

/* What was asked of an archive besides being one. */
static int check_sealed(const struct bundle_asked *a, const struct sealed *c,
			char digest[REF_DIGEST_MAX], char *signer, size_t n, struct err *e)
{
	const char *want = a->option[BUNDLE_OPTION_DIGEST],
		   *key = a->option[BUNDLE_OPTION_VERIFY_KEY];
	uint64_t size;

	signer[0] = '\0';
	if (sealed_digest(c->archive, digest, &size, e) < 0)
		return -e->code;
	if (want && !str_eq(want, digest))
		return err_refuse(e, ERR_POLICY, EBADMSG, "it is not the bundle that you mean",
				  "the bundle's digest is %.80s", digest);
	return key ? sign_verify(c->archive, c->signature, key, signer, n, e) : 0;
}

static void begin_object(struct json *j, struct buf *b)
{
	json_init(j, b, true);
	json_object(j);
}

/* ---- pack ---- */

static int copy_to(int fd, int from)
{
	char piece[65536];
	off_t at = 0;
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = pread(from, piece, sizeof(piece), at)) != 0) {
		r = n < 0 ? -errno : fd_write_all(fd, piece, (size_t)n);
		at += n;
	}
	return r;
}

/* What the user has named is replaced. */
static int write_to(const char *path, int from, struct err *e)
{
	struct output to;
	int r;

	if (output_open(path, 0666, &to, e) < 0)
		return -e->code;
	r = copy_to(to.fd, from);
	if (r == 0)
		return output_keep(&to, e);
	output_drop(&to);
	return err_errno(e, r, "cannot write '%.200s'", path);
}

/* Whole or not at all: the file has its name when all is in it. What has a name that nobody wrote
 * is not replaced. */
static int write_new(const char *name, int from, struct err *e)
{
	CLEANUP(fd) int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mode_t mask = umask(077);
	struct draft d = { .folder = -1, .fd = -1 };
	int r;

	(void)umask(mask);
	r = folder < 0 ? -errno : draft_open(folder, &d);
	if (r == 0)
		r = copy_to(d.fd, from);
	if (r == 0)
		r = draft_keep_new(&d, name, 0666 & ~mask);
	else
		draft_drop(&d);
	if (r == -EEXIST)
		return err_refuse(e, ERR_USAGE, EEXIST, "-o FILE replaces it, or is another name",
				  "there is a '%.200s' already", name);
	return r < 0 ? err_errno(e, r, "cannot write '%.200s'", name) : 0;
}

static int64_t now_or_epoch(void)
{
	const char *epoch = getenv("SOURCE_DATE_EPOCH");
	uint64_t seconds;

	return epoch && num_count(epoch, &seconds) == 0 && seconds < (uint64_t)1 << 36
		       ? (int64_t)seconds
		       : (int64_t)time(NULL);
}

static void tell_packed(const struct packed *p)
{
	char text[160];

	if (p->left_out) {
		(void)snprintf(
			text, sizeof(text), "%llu name%s left out: links, hidden ones, devices",
			(unsigned long long)p->left_out, p->left_out == 1 ? " was" : "s were");
		message_print("brig: note", text);
	}
	if (p->elsewhere) {
		(void)snprintf(
			text, sizeof(text),
			"%llu absolute path%s of the role's own stay%s as written, on every host",
			(unsigned long long)p->elsewhere, p->elsewhere == 1 ? "" : "s",
			p->elsewhere == 1 ? "s" : "");
		message_print("brig: note", text);
	}
}

static int inspect_sealed(const struct sealed *c, struct bundle_manifest *m, struct err *e)
{
	CLEANUP(buf) struct buf text = BUF_INIT(MANIFEST_MAX + 1);

	if (archive_unpack(c->archive, -1, &text, e) < 0)
		return -e->code;
	return bundle_manifest_read(buf_str(&text), text.len, m, e);
}

static int tell_archive(const struct bundle_asked *a, const char *file, const struct sealed *c,
			struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(JSON_MAX);
	struct bundle_manifest m = { 0 };
	char digest[REF_DIGEST_MAX];
	struct json j;
	uint64_t size;

	if (inspect_sealed(c, &m, e) < 0 || sealed_digest(c->archive, digest, &size, e) < 0) {
		bundle_manifest_done(&m);
		return -e->code;
	}
	if (a->json) {
		begin_object(&j, &out);
		json_kstr(&j, "file", file);
		json_kstr(&j, "name", m.name);
		json_kstr(&j, "version", m.version);
		json_kstr(&j, "digest", digest);
		json_ku64(&j, "size", size);
		json_ku64(&j, "files", m.n);
		if (c->reference[0])
			json_kstr(&j, "reference", c->reference);
		json_kbool(&j, "signed", c->signature >= 0);
		json_print(&j);
	} else {
		show_line("bundle", m.name);
		show_line("version", m.version);
		show_line("digest", digest);
		show_line("reference", c->reference);
		show_line("file", file);
	}
	bundle_manifest_done(&m);
	return 0;
}

/* NAME-VERSION.bundle: letters, digits and a few signs, with no dot in front. */
static int usual_name(const struct sealed *c, char *out, size_t n, struct err *e)
{
	struct bundle_manifest m = { 0 };
	int r = inspect_sealed(c, &m, e);

	if (r == 0)
		(void)snprintf(out, n, "%s-%s.bundle", m.name, m.version);
	bundle_manifest_done(&m);
	return r;
}

static int do_pack(const struct bundle_asked *a, struct err *e)
{
	const char *file = a->option[BUNDLE_OPTION_OUTPUT], *key = a->option[BUNDLE_OPTION_SIGN];
	const struct pack_want w = { .path = a->rest[0],
				     .name = a->option[BUNDLE_OPTION_NAME],
				     .version = a->option[BUNDLE_OPTION_VERSION],
				     .created = now_or_epoch() };
	CLEANUP(sealed) struct sealed c = SEALED_NONE;
	char usual[2 * BUNDLE_WORD_MAX + sizeof("-.bundle")], sig[PATH_MAX];
	struct packed p;

	if (file && !*file)
		return bundle_main_usage(a, e);
	c.archive = memfd_create("brig-bundle", MFD_CLOEXEC);
	if (c.archive < 0)
		return err_sys(e, "no memory file");
	if (bundle_pack(&w, c.archive, &p, e) < 0 ||
	    (!file && usual_name(&c, usual, sizeof(usual), e) < 0))
		return -e->code;
	if (snprintf(sig, sizeof(sig), "%s.sig", file ? file : usual) >= (int)sizeof(sig))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "the name of the file is too long");
	/* Signed before it has a name: what somebody puts in the place of the file is not. Who
	 * wanted it signed shall not send an older one either. */
	if (key && sign_make(c.archive, key, &c.signature, e) < 0) {
		if (file)
			(void)unlink(file);
		return -e->code;
	}
	if ((file ? write_to(file, c.archive, e) : write_new(usual, c.archive, e)) < 0 ||
	    (key && write_to(sig, c.signature, e) < 0))
		return -e->code;
	file = file ? file : usual;
	tell_packed(&p);
	return tell_archive(a, file, &c, e);
}

/* ---- inspect ---- */

static int do_inspect(const struct bundle_asked *a, struct err *e)
{
	CLEANUP(sealed) struct sealed c = SEALED_NONE;
	CLEANUP(buf) struct buf out = BUF_INIT(JSON_MAX);
	struct bundle_manifest m = { 0 };
	char digest[REF_DIGEST_MAX], signer[128];
	struct json j;

	if (open_sealed(a, a->rest[0], &c, e) < 0 ||
	    check_sealed(a, &c, digest, signer, sizeof(signer), e) < 0 ||
	    inspect_sealed(&c, &m, e) < 0)
		return -e->code;
	if (a->json) {
		begin_object(&j, &out);
		json_kstr(&j, "digest", digest);
		json_kstr(&j, "reference", c.reference[0] ? c.reference : NULL);
		json_kbool(&j, "signed", c.signature >= 0);
		json_kstr(&j, "signer", signer[0] ? signer : NULL);
		json_manifest(&j, &m);
		json_print(&j);
	} else {
		show_line("digest", digest);
		show_line("reference", c.reference);
		show_line("signature", c.signature < 0 ? "none"
				       : signer[0]     ? signer
						   : "there is one; --verify-key FILE says whose");
		show_manifest(&m);
	}
	bundle_manifest_done(&m);
	return 0;
}

/* ---- install ---- */

/* A probe may start brig itself, which lies beside this program, or in the bin folder of the same
 * prefix, and need not be on PATH. */
static void extend_path(void)
{
	const char *path = getenv("PATH");
	char self[PATH_MAX], more[3 * PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	if (snprintf(more, sizeof(more), "%s%s%s:%s/../../bin", path ? path : "", path ? ":" : "",
		     self, self) < (int)sizeof(more))
		(void)setenv("PATH", more, 1);
}

static bool is_ready(const struct backend *b, char *why, size_t n)
{
	char detail[256] = "";

	if (backend_health(b, NULL, HEALTH_MS, detail, sizeof(detail)) == 0)
		return true;
	(void)snprintf(why, n, "%s: %s", b->name, detail);
	return false;
}

/* Two or more of those that `auto` considers are how a role with `auto` is packed: then each of
 * them will do. */
static bool any_ready(const struct bundle_manifest *m, char *why, size_t n)
{
	size_t of_auto = 0;

	for (size_t i = 0; i < m->backend_count; i++)
		for (const struct backend *const *b = backends_auto; *b; b++)
			of_auto += str_eq((*b)->name, m->backends[i]);
	for (const struct backend *const *b = backends_auto; of_auto > 1 && *b; b++)
		if (is_ready(*b, why, n))
			return true;
	for (size_t i = 0; i < m->backend_count; i++) {
		const struct backend *b = backend_by_name(m->backends[i]);

		if (!b)
			(void)snprintf(why, n, "%.64s: brig does not know it", m->backends[i]);
		else if (is_ready(b, why, n))
			return true;
	}
	return !m->backend_count;
}

static bool warn_of_backends(const struct bundle_manifest *m)
{
	char why[400] = "", text[512];

	extend_path();
	if (any_ready(m, why, sizeof(why)))
		return true;
	(void)snprintf(text, sizeof(text), "no backend that the bundle supports is ready here (%s)",
		       why);
	message_log(PRIORITY_WARNING, "brig: warning", text);
	message_print("hint", "brig doctor says what is missing");
	return false;
}

static bool is_trusted(const struct bundle_record *b)
{
	CLEANUP(mem) char *text = malloc((size_t)2 << 20);
	char role[PATH_MAX + 16];
	ssize_t n;

	(void)snprintf(role, sizeof(role), "%s/" MANIFEST_ROLE, b->folder);
	n = text ? fd_read_file(AT_FDCWD, role, text, (size_t)2 << 20) : -ENOMEM;
	return n >= 0 && trust_has(role, text, (size_t)n);
}

static void tell_installed(const struct bundle_asked *a, const struct installed *i,
			   const struct sealed *c, bool ready)
{
	CLEANUP(buf) struct buf out = BUF_INIT(JSON_MAX);
	const struct bundle_record *b = &i->record;
	bool trusted = is_trusted(b);
	struct json j;

	if (a->json) {
		begin_object(&j, &out);
		json_record(&j, b);
		json_kstr(&j, "reference", c->reference[0] ? c->reference : NULL);
		json_kbool(&j, "already", i->already);
		json_kbool(&j, "backend_ready", ready);
		json_kbool(&j, "trusted", trusted);
		json_print(&j);
		return;
	}
	show_line(i->already ? "there already" : "installed", b->name);
	show_line("version", b->version);
	show_line("digest", b->digest);
	show_line("reference", c->reference);
	show_line("signed by", b->signer);
	show_line("folder", b->folder);
	if (!trusted)
		(void)printf("next: read %s/" MANIFEST_ROLE ", then brig allow %s@%s, then brig "
			     "agent %s@%s\n",
			     b->folder, b->name, b->version, b->name, b->version);
}

static int do_install(const struct bundle_asked *a, struct err *e)
{
	CLEANUP(sealed) struct sealed c = SEALED_NONE;
	const struct install_want w = { .sealed = &c,
					.source = a->rest[0],
					.digest = a->option[BUNDLE_OPTION_DIGEST],
					.verify_key = a->option[BUNDLE_OPTION_VERIFY_KEY] };
	CLEANUP(mem) struct installed *i = malloc(sizeof(*i));

	if (!i)
		return err_nomem(e);
	if (open_sealed(a, a->rest[0], &c, e) < 0 || bundle_install(&w, i, e) < 0)
		return -e->code;
	tell_installed(a, i, &c, warn_of_backends(&i->manifest));
	installed_done(i);
	return 0;
}

/* ---- registries ---- */

static int do_push(const struct bundle_asked *a, struct err *e)
{
	CLEANUP(sealed) struct sealed c = SEALED_NONE;
	struct bundle_manifest m = { 0 };
	struct fetch_want w;

	if (fetch_of(a, a->rest[1], &w, e) < 0)
		return -e->code;
	if (w.ref.digest[0])
		return err_refuse(e, ERR_USAGE, EINVAL, "leave @sha256:... out",
				  "a push makes a digest, it cannot be given one");
	/* What is no bundle here would be none there. */
	if (bundle_main_read_file(a->rest[0], &c, e) < 0 || inspect_sealed(&c, &m, e) < 0)
		return -e->code;
	bundle_manifest_done(&m);
	return fetch_push(&w, &c, e) < 0 ? -e->code : tell_archive(a, a->rest[0], &c, e);
}

static int do_pull(const struct bundle_asked *a, struct err *e)
{
	const char *file = a->option[BUNDLE_OPTION_OUTPUT];
	CLEANUP(sealed) struct sealed c = SEALED_NONE;
	struct bundle_manifest m = { 0 };
	char digest[REF_DIGEST_MAX], signer[128], sig[PATH_MAX];
	struct fetch_want w;

	if (!file || !*file || snprintf(sig, sizeof(sig), "%s.sig", file) >= (int)sizeof(sig))
		return bundle_main_usage(a, e);
	if (fetch_of(a, a->rest[0], &w, e) < 0 || fetch_pull(&w, &c, e) < 0 ||
	    check_sealed(a, &c, digest, signer, sizeof(signer), e) < 0 ||
	    inspect_sealed(&c, &m, e) < 0)
		return -e->code;
	bundle_manifest_done(&m);
	if (write_to(file, c.archive, e) < 0)
		return -e->code;
	/* An older one would be another bundle's. */
	if (c.signature < 0 && unlink(sig) < 0 && errno != ENOENT)
		return err_sys(e, "cannot remove '%.200s'", sig);
	if (c.signature >= 0 && write_to(sig, c.signature, e) < 0)
		return -e->code;
	return tell_archive(a, file, &c, e);
}

/* ---- what is installed ---- */

struct bundle_listing {
	struct json j;
	bool json;
	bool any;
};

static int list_one(void *arg, const struct bundle_record *b)
{
	struct bundle_listing *l = arg;

	if (!b->folder[0])
		return 0;
	if (l->json) {
		json_object(&l->j);
		json_record(&l->j, b);
		json_kbool(&l->j, "trusted", is_trusted(b));
		json_object_end(&l->j);
	} else {
		(void)printf("%s@%s  %.19s  %s  %s\n", b->name, b->version, b->digest,
			     is_trusted(b) ? "allowed" : "not allowed yet", b->folder);
	}
	l->any = true;
	return 0;
}

static int do_list(const struct bundle_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(JSON_MAX);
	struct bundle_listing l = { .json = a->json };

	json_init(&l.j, &out, true);
	json_array(&l.j);
	if (bundle_records(list_one, &l) < 0)
		return err_nomem(e);
	json_array_end(&l.j);
	if (a->json)
		(void)printf("%s\n", buf_str(&out));
	else if (!l.any)
		message_print("brig: note", "no bundle is installed");
	return 0;
}

static int do_remove(const struct bundle_asked *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(JSON_MAX);
	const char *at = strchr(a->rest[0], '@');
	bool forget = a->option[BUNDLE_OPTION_FORGET] != NULL;
	char name[BUNDLE_WORD_MAX + 1];
	struct json j;

	if (!at || (size_t)(at - a->rest[0]) >= sizeof(name))
		return bundle_main_usage(a, e);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(at - a->rest[0]), a->rest[0]);
	if (!bundle_name_ok(name) || !bundle_version_ok(at + 1))
		return bundle_main_usage(a, e);
	if (bundle_remove(name, at + 1, forget, e) < 0)
		return -e->code;
	if (a->json) {
		begin_object(&j, &out);
		json_kstr(&j, "name", name);
		json_kstr(&j, "version", at + 1);
		json_kbool(&j, "forgotten", forget);
		json_print(&j);
	} else {
		(void)printf("%s: removed%s\n", a->rest[0], forget ? " and forgotten" : "");
	}
	return 0;
}

static int do_schema(const struct bundle_asked *a UNUSED, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT((size_t)64 << 10);

	bundle_manifest_schema(&out);
	return out.failed ? err_nomem(e) : (fputs(buf_str(&out), stdout), 0);
}

int main(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	static int (*const commands_of[BUNDLE_COMMANDS])(const struct bundle_asked *,
							 struct err *) = {
		[BUNDLE_PACK] = do_pack,       [BUNDLE_INSPECT] = do_inspect,
		[BUNDLE_INSTALL] = do_install, [BUNDLE_PUSH] = do_push,
		[BUNDLE_PULL] = do_pull,       [BUNDLE_LIST] = do_list,
		[BUNDLE_REMOVE] = do_remove,   [BUNDLE_SCHEMA] = do_schema,
	};
	struct bundle_asked a = { 0 };
	struct err e = { 0 };

	program_is_brig();
	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (fd_ensure_stdio() < 0)
		return EXIT_BRIG;
	if (argc && str_eq(argv[0], IMAGE_PROGRAM))
		return image_main(argc, argv);
	if (bundle_main_parse(&a, argc, argv, &e) == 0 && exposed_check_own(&e) == 0 &&
	    commands_of[a.command](&a, &e) == 0 && fflush(stdout) == 0)
		return 0;
	if (!e.code)
		(void)err_sys(&e, "cannot print");
	error_print(&e);
	return EXIT_BRIG;
}

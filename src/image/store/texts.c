/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store/texts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/bytes/jread.h"
#include "base/files/fd.h"
#include "base/text/str.h"
#include "proc/confine.h"
#include "proc/forked.h"

enum texts_kind { TEXTS_INDEX, TEXTS_MANIFEST, TEXTS_ARCHIVE, TEXTS_CONFIG };

/* ---- docker's list ---- */

static int no_list(struct err *e)
{
	return err_set(e, ERR_POLICY, EBADMSG,
		       "the archive is refused: its manifest.json is none that brig reads");
}

static bool archive_path(const char *text, char out[ARCHIVE_PATH_MAX])
{
	if (!text || !*text || strlen(text) >= ARCHIVE_PATH_MAX || text[0] == '/' ||
	    str_has_control(text))
		return false;
	(void)snprintf(out, ARCHIVE_PATH_MAX, "%s", text);
	return true;
}

static bool archive_image_read(const struct jread *v, struct archive_image *ret)
{
	const struct jread *layers = jread_get(v, "Layers");
	const char *name = jread_text(jread_at(jread_get(v, "RepoTags"), 0));

	if (!archive_path(jread_str(v, "Config"), ret->config) ||
	    jread_kind(layers) != JREAD_ARRAY || jread_count(layers) > OCI_LAYERS_MAX)
		return false;
	if (name && strlen(name) < sizeof(ret->name) && !str_has_control(name))
		(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	for (; ret->n < jread_count(layers); ret->n++)
		if (!archive_path(jread_text(jread_at(layers, ret->n)), ret->layers[ret->n]))
			return false;
	return true;
}

int archive_list_read(const char *text, size_t n, struct archive_list *ret, struct err *e)
{
	CLEANUP(jread) struct jread *v = NULL;

	*ret = (struct archive_list){ 0 };
	if (n > OCI_MANIFEST_MAX || jread_parse(text, n, &v, e) < 0 ||
	    jread_kind(v) != JREAD_ARRAY || !jread_count(v) || jread_count(v) > ARCHIVE_IMAGES_MAX)
		return no_list(e);
	for (; ret->n < jread_count(v); ret->n++)
		if (!archive_image_read(jread_at(v, ret->n), &ret->v[ret->n]))
			return no_list(e);
	return 0;
}

static bool archive_sound(const struct archive_list *l)
{
	if (l->n > ARCHIVE_IMAGES_MAX)
		return false;
	for (size_t i = 0; i < l->n; i++) {
		const struct archive_image *v = &l->v[i];

		if (v->n > OCI_LAYERS_MAX || !memchr(v->config, '\0', sizeof(v->config)) ||
		    !memchr(v->name, '\0', sizeof(v->name)))
			return false;
		for (size_t k = 0; k < v->n; k++)
			if (!memchr(v->layers[k], '\0', sizeof(v->layers[k])))
				return false;
	}
	return true;
}

/* ---- in a process of its own ---- */

struct texts_job {
	enum texts_kind kind;
	const char *text;
	size_t n, size; /* size: of the answer */
	void *answer;
};

static int texts_config_run(const struct texts_job *j, struct buf *out, struct err *e)
{
	CLEANUP(arena) struct arena *a = arena_new(IMAGE_ARENA_MAX);
	struct image_record r;

	if (!a)
		return err_nomem(e);
	if (image_config_read(j->text, j->n, a, &r, e) < 0)
		return -e->code;
	image_record_write(&r, out);
	return out->failed ? err_set(e, ERR_POLICY, EFBIG,
				     "the image is refused: its configuration is too long")
			   : 0;
}

static int texts_job_run(void *arg, int line)
{
	CLEANUP(buf) struct buf out = BUF_INIT(IMAGE_RECORD_MAX);
	const struct texts_job *j = arg;
	const struct confine_want rest = { .folder = -1, .bytes = 0 };
	struct err e = { 0 };

	if (fd_close_except(3, &line, 1) < 0)
		(void)err_set(&e, ERR_INTERNAL, EIO, "cannot close descriptors");
	else if (confine(CONFINE_INSPECTOR, &rest, &e) < 0)
		;
	else if (j->kind == TEXTS_INDEX)
		(void)oci_read_index(j->text, j->n, j->answer, &e);
	else if (j->kind == TEXTS_MANIFEST)
		(void)oci_read_image(j->text, j->n, j->answer, &e);
	else if (j->kind == TEXTS_ARCHIVE)
		(void)archive_list_read(j->text, j->n, j->answer, &e);
	else
		(void)texts_config_run(j, &out, &e);
	if (forked_tell(line, &e) == 0 && !e.code)
		(void)fd_write_all(line, j->size ? (const char *)j->answer : buf_str(&out),
				   j->size ? j->size : out.len);
	return 0;
}

static int texts_hear(const struct texts_job *j, int line, struct err *said, struct buf *text)
{
	int r = forked_hear(line, said);
	char piece[4096];
	ssize_t n;

	if (r < 0 || said->code)
		return r;
	if (j->size)
		return fd_read_all(line, j->answer, j->size);
	while ((n = read(line, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_add(text, piece, (size_t)n);
	return text->failed ? -EPROTO : 0;
}

static int texts_ask(struct texts_job *j, struct buf *text, struct err *e)
{
	const struct forked_want w = { .name = "brig-unpack",
				       .what = "the process that reads an image",
				       .line = FORKED_BYTES,
				       .run = texts_job_run,
				       .arg = j };
	CLEANUP(fd) int line = -1;
	struct err said = { 0 };
	int status, r;
	pid_t pid = forked_start(&w, &line, e);

	if (pid < 0)
		return (int)pid;
	r = texts_hear(j, line, &said, text);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	status = forked_wait(pid);
	if (r < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		return err_set(e, ERR_POLICY, EPROTO,
			       "the image is refused: it ended the process that read it");
	if (said.code)
		*e = said;
	return -said.code;
}

static int texts_unsound(struct err *e)
{
	return err_set(e, ERR_POLICY, EPROTO, "the process that reads an image makes no sense");
}

int texts_index(const char *text, size_t n, struct oci_index *ret, struct err *e)
{
	struct texts_job j = { TEXTS_INDEX, text, n, sizeof(*ret), ret };

	if (texts_ask(&j, NULL, e) < 0)
		return -e->code;
	return oci_index_sound(ret) ? 0 : texts_unsound(e);
}

int texts_manifest(const char *text, size_t n, struct oci_manifest *ret, struct err *e)
{
	struct texts_job j = { TEXTS_MANIFEST, text, n, sizeof(*ret), ret };

	if (texts_ask(&j, NULL, e) < 0)
		return -e->code;
	return oci_sound(ret) && ret->n ? 0 : texts_unsound(e);
}

int texts_archive(const char *text, size_t n, struct archive_list *ret, struct err *e)
{
	struct texts_job j = { TEXTS_ARCHIVE, text, n, sizeof(*ret), ret };

	if (texts_ask(&j, NULL, e) < 0)
		return -e->code;
	return archive_sound(ret) ? 0 : texts_unsound(e);
}

int texts_config(const char *text, size_t n, struct arena *a, struct image_record *ret,
		 struct err *e)
{
	CLEANUP(buf) struct buf said = BUF_INIT(IMAGE_RECORD_MAX);
	struct texts_job j = { TEXTS_CONFIG, text, n, 0, NULL };

	if (texts_ask(&j, &said, e) < 0)
		return -e->code;
	return image_record_read(buf_str(&said), said.len, false, a, ret, e);
}

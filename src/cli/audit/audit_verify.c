/* SPDX-License-Identifier: Apache-2.0 */
/* cli/audit/audit_verify.c - "verify" and "prune": what the record's own library says, for people
 * and programs. */
#include <stdio.h>
#include <string.h>

#include "audit/prune.h"
#include "audit/verify.h"
#include "base/bytes/json.h"
#include "base/text/clean.h"
#include "base/text/num.h"
#include "cli/audit/asked.h"

#define OUT_MAX ((size_t)1 << 20)

#define N(v) ((unsigned long long)(v))

static unsigned described(const struct verify_report *r)
{
	return r->faults < VERIFY_FAULTS_MAX ? r->faults : VERIFY_FAULTS_MAX;
}

/* --- for people --- */

static void put_fault(struct buf *b, const struct verify_fault *f)
{
	buf_puts(b, "  ");
	clean_put(b, f->file, strlen(f->file));
	if (f->line)
		buf_printf(b, ", line %llu", N(f->line));
	if (f->seq)
		buf_printf(b, ", record %llu", N(f->seq));
	buf_puts(b, ": ");
	clean_put(b, f->what, strlen(f->what));
	buf_putc(b, '\n');
}

static void put_anchors(struct buf *b, const struct verify_report *r)
{
	for (unsigned i = 0; i < r->anchors; i++) {
		const struct verify_anchor *a = &r->anchor[i];

		buf_puts(b, "anchor: ");
		clean_put(b, a->name, strlen(a->name));
		buf_printf(b, ", %llu heads, up to record %llu", N(a->lines), N(a->seq));
		if (a->ignored)
			buf_printf(b, "; %llu lines in it are not of this record", N(a->ignored));
		buf_putc(b, '\n');
	}
	if (!r->anchors)
		buf_puts(
			b,
			"anchor: the signed head beside the record; an older copy of both together "
			"would not be seen (audit.anchor, --anchor)\n");
}

static void verify_text(struct buf *b, const struct verify_report *r)
{
	if (r->empty) {
		buf_puts(b, "there is no record yet\n");
		return;
	}
	buf_printf(b, "%s: %llu records, ", r->ok ? "untouched" : "NOT AS IT WAS WRITTEN",
		   N(r->records));
	if (r->records)
		buf_printf(b, "numbers %llu to %llu, ", N(r->first), N(r->last));
	buf_printf(b, "in %llu file%s of ", N(r->segments), r->segments == 1 ? "" : "s");
	clean_put(b, r->dir, strlen(r->dir));
	buf_putc(b, '\n');
	for (unsigned i = 0; i < described(r); i++)
		put_fault(b, &r->fault[i]);
	if (r->faults > VERIFY_FAULTS_MAX)
		buf_printf(b, "  and %u more\n", r->faults - VERIFY_FAULTS_MAX);
	if (r->pruned)
		buf_printf(b, "retention removed the records up to %llu\n", N(r->pruned));
	if (r->tail_records || r->tail_bytes)
		buf_printf(b,
			   "behind the head: %llu records, %llu bytes that nobody acknowledged\n",
			   N(r->tail_records), N(r->tail_bytes));
	put_anchors(b, r);
}

/* --- for programs --- */

static void json_faults(struct json *j, const struct verify_report *r)
{
	json_karray(j, "faults");
	for (unsigned i = 0; i < described(r); i++) {
		json_object(j);
		json_kstr(j, "file", r->fault[i].file);
		json_ku64(j, "line", r->fault[i].line);
		json_ku64(j, "seq", r->fault[i].seq);
		json_kstr(j, "what", r->fault[i].what);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_anchors(struct json *j, const struct verify_report *r)
{
	json_karray(j, "anchors");
	for (unsigned i = 0; i < r->anchors; i++) {
		json_object(j);
		json_kstr(j, "name", r->anchor[i].name);
		json_ku64(j, "heads", r->anchor[i].lines);
		json_ku64(j, "ignored", r->anchor[i].ignored);
		json_ku64(j, "seq", r->anchor[i].seq);
		json_object_end(j);
	}
	json_array_end(j);
}

static void verify_json(struct buf *b, const struct verify_report *r)
{
	struct json j;

	json_init(&j, b, true);
	json_object(&j);
	json_kbool(&j, "ok", r->ok);
	json_kbool(&j, "empty", r->empty);
	json_kstr(&j, "dir", r->dir);
	json_kstr(&j, "key", r->key_id);
	json_ku64(&j, "records", r->records);
	json_ku64(&j, "first", r->first);
	json_ku64(&j, "last", r->last);
	json_ku64(&j, "segments", r->segments);
	json_ku64(&j, "pruned", r->pruned);
	json_ku64(&j, "tail_records", r->tail_records);
	json_ku64(&j, "tail_bytes", r->tail_bytes);
	json_ku64(&j, "fault_count", r->faults);
	json_faults(&j, r);
	json_anchors(&j, r);
	json_object_end(&j);
	buf_putc(b, '\n');
}

int audit_verify(const struct asked *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(OUT_MAX);
	struct verify_options o = { .dir = a->dir, .anchors = a->anchors };
	struct verify_report r = { 0 };

	if (verify(&o, &r, e) < 0)
		return -e->code;
	if (a->json)
		verify_json(&out, &r);
	else
		verify_text(&out, &r);
	if (flush_to(STDOUT_FILENO, &out, true, e) < 0)
		return -e->code;
	return r.ok || r.empty ? 0 : 1;
}

/* --- prune --- */

static void prune_text(struct buf *b, const struct asked *a, const struct prune_report *r)
{
	char size[32];

	num_size_text(r->bytes, size, sizeof(size));
	if (!r->removed)
		buf_printf(b, "nothing to remove: %llu records stay\n", N(r->left));
	else
		buf_printf(b, "%s %llu records, up to number %llu, and %s bytes; %llu stay\n",
			   a->dry_run ? "would remove" : "removed", N(r->removed), N(r->last), size,
			   N(r->left));
}

static void prune_json(struct buf *b, const struct asked *a, const struct prune_report *r)
{
	struct json j;

	json_init(&j, b, true);
	json_object(&j);
	json_kbool(&j, "dry_run", a->dry_run);
	json_ku64(&j, "removed", r->removed);
	json_ku64(&j, "last", r->last);
	json_ku64(&j, "segments", r->segments);
	json_ku64(&j, "left", r->left);
	json_ku64(&j, "bytes", r->bytes);
	json_object_end(&j);
	buf_putc(b, '\n');
}

/* log_open would make a record where there is none; nobody who prunes wants that. */
static int prune_it(const struct asked *a, struct prune_report *r, struct err *e)
{
	CLEANUP(log) struct log *l = NULL;
	char path[PATH_MAX];
	CLEANUP(fd) int dirfd = asked_open_dir(a, path, e);
	struct log_options lo = { .dir = a->dir, .sync = a->sync, .anchors = a->destinations };
	struct prune_options po = { .max_age_ms = a->max_age_ms,
				    .max_records = a->max_records,
				    .dry_run = a->dry_run };

	if (dirfd < 0)
		return -e->code;
	if (log_open(&lo, &l, e) < 0 || prune(l, &po, r, e) < 0)
		return -e->code;
	return log_anchor(l, e);
}

int audit_prune(const struct asked *a, struct err *e)
{
	CLEANUP(buf) struct buf out = BUF_INIT(OUT_MAX);
	struct prune_report r = { 0 };

	if (prune_it(a, &r, e) < 0)
		return -e->code;
	if (a->json)
		prune_json(&out, a, &r);
	else
		prune_text(&out, a, &r);
	return flush_to(STDOUT_FILENO, &out, true, e);
}

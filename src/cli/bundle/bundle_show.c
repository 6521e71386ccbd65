/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bundle/bundle_show.h"

#include <stdio.h>
#include <string.h>

#include "base/text/clean.h"

void show_line(const char *name, const char *text)
{
	CLEANUP(buf) struct buf line = BUF_INIT((size_t)16 << 10);

	if (!text || !*text)
		return;
	clean_put(&line, text, strlen(text));
	(void)printf("%-12s %s\n", name, buf_str(&line));
}

void show_number(const char *name, uint64_t n)
{
	(void)printf("%-12s %llu\n", name, (unsigned long long)n);
}

static void show_backends(const struct bundle_manifest *m)
{
	CLEANUP(buf) struct buf line = BUF_INIT(4096);

	for (size_t i = 0; i < m->backend_count; i++)
		buf_printf(&line, "%s%s", i ? ", " : "", m->backends[i]);
	show_line("backends", m->backend_count ? buf_str(&line) : "none named");
}

void show_manifest(const struct bundle_manifest *m)
{
	show_line("name", m->name);
	show_line("version", m->version);
	show_line("description", m->description);
	show_line("author", m->author);
	show_line("created", m->created_at);
	show_line("packed by", m->packed_by);
	show_backends(m);
	show_number("bytes", m->bytes);
	show_number("files", m->n);
	for (size_t i = 0; i < m->n; i++)
		(void)printf("  %.12s  %10llu  %s\n", m->files[i].sha256,
			     (unsigned long long)m->files[i].size, bundle_file_place(&m->files[i]));
}

void json_manifest(struct json *j, const struct bundle_manifest *m)
{
	CLEANUP(buf) struct buf text = BUF_INIT(2 * MANIFEST_MAX);

	jread_write(m->root, &text);
	json_key(j, "manifest");
	if (text.failed)
		json_null(j);
	else
		json_raw(j, buf_str(&text), text.len);
}

void json_record(struct json *j, const struct bundle_record *b)
{
	json_kstr(j, "name", b->name);
	json_kstr(j, "version", b->version);
	json_kstr(j, "digest", b->digest);
	json_kstr(j, "folder", b->folder[0] ? b->folder : NULL);
	json_kstr(j, "source", b->source);
	json_kstr(j, "signer", b->signer[0] ? b->signer : NULL);
	json_ku64(j, "installed", b->installed);
}

void json_print(struct json *j)
{
	json_object_end(j);
	(void)printf("%s\n", buf_str(j->out));
}

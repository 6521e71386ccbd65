/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/apps/agent_show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes/jread.h"
#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/apps/agent_confirm.h"
#include "cli/cli.h"

#define CALLS_MAX ((size_t)8 << 20)
#define ARGS_SHOWN 300
#define BILLION 1000000000ULL
#define PANEL_WIDTH 76

void agent_show_init(struct agent_show *s, bool json, bool quiet, bool yes)
{
	*s = (struct agent_show){
		.json = json, .quiet = quiet, .yes = yes, .calls = BUF_INIT(CALLS_MAX)
	};
}

void agent_show_done(struct agent_show *s)
{
	buf_done(&s->calls);
}

/* ---- as it comes ---- */

/* Lines stay lines, and a tab is one; the rest of what moves a cursor is a '?'. */
static void agent_show_put_clean(struct buf *b, const char *p, size_t n)
{
	while (n) {
		size_t len = 0;

		while (len < n && p[len] != '\n' && p[len] != '\t')
			len++;
		clean_put(b, p, len);
		if (len < n)
			buf_putc(b, p[len]);
		p += len + (len < n);
		n -= len + (len < n);
	}
}

static void on_text(void *arg, const char *p, size_t n)
{
	struct agent_show *s = arg;
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)CHAT_TEXT_MAX * 4);

	if (s->json)
		return;
	agent_show_put_clean(&b, p, n);
	(void)fwrite(buf_str(&b), 1, b.len, stdout);
	(void)fflush(stdout);
	s->open = b.len && b.data[b.len - 1] != '\n';
}

static void on_answered(void *arg)
{
	struct agent_show *s = arg;

	if (s->open)
		(void)fputs("\n", stdout);
	(void)fflush(stdout);
	s->open = false;
}

static void call_text(const struct chat_call *c, struct buf *b)
{
	size_t n = c->args.len;

	buf_printf(b, "%s ", c->name);
	buf_add(b, buf_str(&c->args), n > ARGS_SHOWN ? utf8_cut(c->args.data, ARGS_SHOWN) : n);
	if (n > ARGS_SHOWN)
		buf_puts(b, "...");
}

static void on_call(void *arg, const struct chat_call *c)
{
	const struct agent_show *s = arg;
	CLEANUP(buf) struct buf b = BUF_INIT(4096);

	if (s->quiet || s->json)
		return;
	call_text(c, &b);
	message_log(PRIORITY_INFO, "brig: tool", buf_str(&b));
}

static bool on_confirm(void *arg, const struct chat_call *c)
{
	const struct agent_show *s = arg;

	return s->yes || agent_confirm(c);
}

static void say_denials(const struct agent_show *s, const struct jread *list)
{
	for (size_t i = 0; i < jread_count(list) && !s->json; i++) {
		const struct jread *d = jread_at(list, i);
		const char *setting = jread_str(d, "setting");
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		buf_printf(&b, "%.60s: %.300s (%.300s)%s%.60s", jread_str(d, "kind"),
			   jread_str(d, "target"), jread_str(d, "reason"),
			   setting ? "; setting: " : "", setting ? setting : "");
		message_log(PRIORITY_WARNING, "brig: denied", buf_str(&b));
	}
}

/* A tool's complaint and its hint, on one line. */
static void say_complaint(const struct buf *text)
{
	CLEANUP(buf) struct buf b = BUF_INIT((size_t)CHAT_TEXT_MAX);
	const char *p = buf_str(text), *end;

	for (; (end = strchr(p, '\n')) && end[1]; p = end + 1) {
		buf_add(&b, p, (size_t)(end - p));
		buf_puts(&b, "; ");
	}
	buf_add(&b, p, end ? (size_t)(end - p) : strlen(p));
	message_log(PRIORITY_WARNING, "brig: tool", buf_str(&b));
}

static void say_more(const struct agent_show *s, const struct tool_result *r)
{
	char text[128];

	if (s->json || !r->more)
		return;
	(void)snprintf(text, sizeof(text), "and %llu more; brig audit has them",
		       (unsigned long long)r->more);
	message_log(PRIORITY_WARNING, "brig: denied", text);
}

static void on_result(void *arg, const struct chat_call *c, const struct tool_result *r)
{
	struct agent_show *s = arg;
	CLEANUP(jread) struct jread *denials = NULL;
	struct err unused;
	struct json j;

	if (r->denials.len)
		(void)jread_parse(buf_str(&r->denials), r->denials.len, &denials, &unused);
	say_denials(s, denials);
	say_more(s, r);
	if (r->failed && !s->quiet && !s->json && !r->run[0])
		say_complaint(&r->text);
	if (s->calls.len)
		buf_putc(&s->calls, ',');
	json_init(&j, &s->calls, false);
	json_object(&j);
	json_kstr(&j, "tool", c->name);
	json_kbool(&j, "failed", r->failed);
	json_kstr(&j, "run", r->run[0] ? r->run : NULL);
	json_key(&j, "denials");
	if (r->denials.len)
		json_raw(&j, buf_str(&r->denials), r->denials.len);
	else
		json_raw(&j, "[]", 2);
	json_ku64(&j, "denials_more", r->more);
	json_object_end(&j);
}

struct chat_listener agent_listener(struct agent_show *s)
{
	return (struct chat_listener){ .text = on_text,
				       .answered = on_answered,
				       .calls = on_call,
				       .confirm = on_confirm,
				       .result = on_result,
				       .arg = s };
}

/* ---- the panel ---- */

static const struct frame {
	const char *corner[4], *across, *down;
} fancy = { { "╭", "╮", "╰", "╯" }, "─", "│" }, plain = { { "+", "+", "+", "+" }, "-", "|" };

static const struct frame *frame(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (v && *v)
			return strcasestr(v, "utf-8") || strcasestr(v, "utf8") ? &fancy : &plain;
	}
	return &plain;
}

static void edge(const struct frame *f, int lower, const char *title)
{
	size_t n = strlen(title);

	(void)fputs(f->corner[lower * 2], stderr);
	(void)fputs(f->across, stderr);
	(void)fputs(title, stderr);
	for (size_t i = n + 1; i < PANEL_WIDTH + 2; i++)
		(void)fputs(f->across, stderr);
	(void)fprintf(stderr, "%s\n", f->corner[lower * 2 + 1]);
}

/* Characters, which are counted by their first bytes. */
static int columns(const char *p, size_t n)
{
	int c = 0;

	for (size_t i = 0; i < n; i++)
		c += (p[i] & 0xc0) != 0x80;
	return c;
}

/* A line of the text, cut at a blank. */
static void paragraph(const struct frame *f, const char *text)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4096);
	const char *p;

	clean_put(&b, text, strlen(text));
	for (p = buf_str(&b); *p; p += strspn(p, " ")) {
		size_t n = strlen(p);

		while (columns(p, n) > PANEL_WIDTH) {
			size_t shorter = n;

			while (shorter && p[--shorter] != ' ')
				;
			n = shorter ? shorter : utf8_cut(p, PANEL_WIDTH);
		}
		(void)fprintf(stderr, "%s %.*s%*s %s\n", f->down, (int)n, p,
			      PANEL_WIDTH - columns(p, n), "", f->down);
		p += n;
	}
}

void agent_panel(const char *backend, const struct err *e)
{
	const struct frame *f = frame();
	char line[64];

	(void)snprintf(line, sizeof(line), "Backend: %s", backend);
	edge(f, 0, " Sandbox unavailable ");
	paragraph(f, line);
	paragraph(f, e->what);
	if (e->hint[0])
		paragraph(f, e->hint);
	edge(f, 1, "");
}

/* ---- the object ---- */

static void put_cost(struct json *j, const struct chat_report *r)
{
	char text[48];

	(void)snprintf(text, sizeof(text), "%llu.%09llu", (unsigned long long)(r->spent / BILLION),
		       (unsigned long long)(r->spent % BILLION));
	json_key(j, "cost_usd");
	if (r->spent)
		json_raw(j, text, strlen(text));
	else
		json_null(j);
}

static void agent_show_put_error(struct json *j, const struct err *e)
{
	json_key(j, "error");
	if (!e || !e->code) {
		json_null(j);
		return;
	}
	json_object(j);
	json_kstr(j, "kind", err_kind_name(e->kind));
	json_kstr(j, "what", e->what);
	json_kstr(j, "hint", e->hint[0] ? e->hint : NULL);
	json_object_end(j);
}

void agent_object(const struct agent_show *s, const struct spec *spec, const struct chat_history *h,
		  const struct chat_report *r, const struct err *e)
{
	static const struct chat_report none;
	CLEANUP(buf) struct buf b = BUF_INIT(CALLS_MAX + (size_t)CHAT_TEXT_MAX * 8);
	struct json j;

	if (!r)
		r = &none;
	json_init(&j, &b, true);
	json_object(&j);
	json_kstr(&j, "session", h && h->n ? h->id : NULL);
	json_kstr(&j, "role", spec->audit.agent);
	json_kstr(&j, "model", spec->chat.name);
	json_key(&j, "text");
	json_strn(&j, buf_str(&r->text), r->text.len);
	json_kstr(&j, "stopped", r->stopped[0] ? r->stopped : NULL);
	json_ku64(&j, "turns", r->turns);
	json_ku64(&j, "tool_calls", r->calls);
	json_ku64(&j, "denied", r->denied);
	json_ku64(&j, "input_tokens", r->in_tokens);
	json_ku64(&j, "output_tokens", r->out_tokens);
	put_cost(&j, r);
	json_karray(&j, "calls");
	if (s->calls.len)
		json_raw(&j, buf_str(&s->calls), s->calls.len);
	json_array_end(&j);
	agent_show_put_error(&j, e);
	json_object_end(&j);
	(void)printf("%s\n", buf_str(&b));
	(void)fflush(stdout);
}

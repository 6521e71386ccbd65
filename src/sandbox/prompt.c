/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/prompt.h"

#include <string.h>
#include <strings.h>

#include "base/text/str.h"
#include "model/settings/suffixes.h"

#define ENTER "\r\n"
#define LINE "Type one of these words and press Enter: "
#define AGAIN "What was typed before that could be read went to nobody: type it again. "
#define INTERRUPT '\003'
#define ESCAPE '\033'
#define ERASE_ALL '\025'

/* The part of a name that somebody has registered; what stands before it is theirs to choose. */
static const char *registered(const char *host)
{
	const char *at = host + strlen(host), *found = host;

	while (at > host) {
		while (at > host && at[-1] != '.')
			at--;
		found = at;
		if (!suffix_is_anybodys(at))
			break;
		at -= at > host;
	}
	return found;
}

static bool has_alabel(const char *host)
{
	return str_starts(host, "xn--") || strstr(host, ".xn--");
}

void prompt_text(const char *host, unsigned port, unsigned further, struct buf *out)
{
	const char *of = registered(host);

	buf_puts(out, "brig asks: no rule allows this name. May the command reach it?" ENTER ENTER);
	buf_printf(out, "    %s  port %u" ENTER, host, port);
	if (of != host)
		buf_printf(out, "    which belongs to  %s" ENTER, of);
	if (has_alabel(host))
		buf_puts(out, "    \"xn--\" stands for letters beyond a to z: shown, it may look "
			      "like another name" ENTER);
	buf_puts(out, ENTER
		 "    once    this connection alone" ENTER "    run     until this run ends" ENTER
		 "    always  from now on: in your own settings, after you have seen the "
		 "change" ENTER "    no      not in this run" ENTER ENTER);
	if (further)
		buf_printf(out, "%u more question%s will follow. ", further,
			   further == 1 ? "" : "s");
	buf_puts(out, "Nothing typed within a minute is no." ENTER LINE);
}

void prompt_begin(struct prompt *p, bool confirms, uint64_t now)
{
	*p = (struct prompt){ .confirms = confirms, .from = now + PROMPT_QUIET_US };
}

/* Without blanks around it, in whichever letters. */
static bool prompt_says(const struct prompt *p, const char *word)
{
	size_t from = strspn(p->line, " "), n = p->n;

	while (n > from && p->line[n - 1] == ' ')
		n--;
	return n - from == strlen(word) && strncasecmp(p->line + from, word, n - from) == 0;
}

static enum prompt_word word_of(const struct prompt *p)
{
	static const struct {
		const char *text;
		enum prompt_word word;
	} words[] = { { "no", PROMPT_NO },
		      { "n", PROMPT_NO },
		      { "once", PROMPT_ONCE },
		      { "run", PROMPT_RUN },
		      { "always", PROMPT_ALWAYS } };

	if (p->confirms)
		return prompt_says(p, "yes") ? PROMPT_YES : PROMPT_NO;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (prompt_says(p, words[i].text))
			return words[i].word;
	return PROMPT_NONE;
}

static enum prompt_word prompt_enter(struct prompt *p, struct buf *echo)
{
	enum prompt_word w;

	p->line[p->n] = '\0';
	if (!p->n) /* a key that people press without reading */
		return PROMPT_NONE;
	w = word_of(p);
	buf_puts(echo, ENTER);
	if (w == PROMPT_NONE)
		buf_puts(echo, LINE);
	p->n = 0;
	return w;
}

static void clear(struct prompt *p, struct buf *echo)
{
	for (; p->n; p->n--)
		buf_puts(echo, "\b \b");
}

static enum prompt_word prompt_one(struct prompt *p, char c, uint64_t now, struct buf *echo)
{
	if (c == '\r' || c == '\n')
		return prompt_enter(p, echo);
	if (c == INTERRUPT)
		return PROMPT_NO;
	if (c == ESCAPE) {
		clear(p, echo);
		p->from = now + PROMPT_QUIET_US;
		p->told = true; /* a key with an arrow on it is no answer */
	} else if (c == ERASE_ALL) {
		clear(p, echo);
	} else if ((c == '\b' || c == '\177') && p->n) {
		p->n--;
		buf_puts(echo, "\b \b");
	} else if (c >= ' ' && c < '\177' && p->n + 1 < sizeof(p->line)) {
		p->line[p->n++] = c;
		buf_putc(echo, c);
	}
	return PROMPT_NONE;
}

void prompt_dropped(struct prompt *p, struct buf *echo)
{
	if (!p->told)
		buf_puts(echo, ENTER AGAIN ENTER LINE);
	p->told = true;
}

enum prompt_word prompt_type(struct prompt *p, const char *data, size_t n, uint64_t now,
			     struct buf *echo)
{
	for (size_t i = 0; i < n; i++) {
		enum prompt_word w;

		if (now < p->from) {
			p->from = now + PROMPT_QUIET_US;
			prompt_dropped(p, echo);
			return PROMPT_NONE;
		}
		p->told = false;
		w = prompt_one(p, data[i], now, echo);
		if (w != PROMPT_NONE)
			return w;
	}
	return PROMPT_NONE;
}

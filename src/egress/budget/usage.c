/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/budget/usage.h"

#include <string.h>
#include <strings.h>

#include "base/bytes/hex.h"
#include "base/text/cleanup.h"

enum {
	AT_VALUE, /* one begins, or its array ends */
	AT_KEY,   /* a member begins, or its object ends */
	AT_COLON,
	AT_NEXT, /* behind a value */
	IN_STRING,
	IN_ESCAPE,
	IN_HEX,
	IN_NUMBER,
	IN_WORD,
};

enum { A_KEY, A_VALUE };

static const char data_word[] = "data:";

enum { LINE_DATA = sizeof(data_word) - 1, LINE_OTHER };

/* Where vendors say it. A path of members; what is in an array has none, but in an array around
 * everything. */
static const struct {
	const char *path;
	enum usage_number is;
} numbers[] = {
	/* OpenAI's chat and whoever speaks like it */
	{ "usage.prompt_tokens", USAGE_IN },
	{ "usage.completion_tokens", USAGE_OUT },
	{ "usage.total_tokens", USAGE_TOTAL },
	{ "usage.prompt_tokens_details.cached_tokens", USAGE_CACHED },
	{ "usage.prompt_cache_hit_tokens", USAGE_CACHED },
	/* Responses; Anthropic's messages, where what concerns a cache comes beside the rest */
	{ "usage.input_tokens", USAGE_IN },
	{ "usage.output_tokens", USAGE_OUT },
	{ "usage.input_tokens_details.cached_tokens", USAGE_CACHED },
	{ "usage.cache_read_input_tokens", USAGE_READ },
	{ "usage.cache_creation_input_tokens", USAGE_WRITTEN },
	{ "usage.cache_creation.ephemeral_1h_input_tokens", USAGE_HOUR },
	/* Bedrock */
	{ "usage.inputTokens", USAGE_IN },
	{ "usage.outputTokens", USAGE_OUT },
	{ "usage.totalTokens", USAGE_TOTAL },
	{ "usage.cacheReadInputTokens", USAGE_READ },
	{ "usage.cacheWriteInputTokens", USAGE_WRITTEN },
	/* Gemini */
	{ "usageMetadata.promptTokenCount", USAGE_IN },
	{ "usageMetadata.cachedContentTokenCount", USAGE_CACHED },
	{ "usageMetadata.toolUsePromptTokenCount", USAGE_TOOLS },
	{ "usageMetadata.candidatesTokenCount", USAGE_OUT },
	{ "usageMetadata.thoughtsTokenCount", USAGE_THOUGHTS },
	{ "usageMetadata.totalTokenCount", USAGE_TOTAL },
	/* Cohere */
	{ "usage.tokens.input_tokens", USAGE_IN },
	{ "usage.tokens.output_tokens", USAGE_OUT },
	{ "meta.tokens.input_tokens", USAGE_IN },
	{ "meta.tokens.output_tokens", USAGE_OUT },
	/* Ollama */
	{ "prompt_eval_count", USAGE_IN },
	{ "eval_count", USAGE_OUT },
};

/* What the whole of it may be inside of, in the events of a stream. */
static const char *const around[] = { "", "response.", "message.", "delta.", "x_groq." };

static const char *const names[] = { "model", "modelVersion" };

/* By these a request is answered with a name, and what it uses is told to whoever asks for that. */
static const char *const later[] = { "background", "deferred" };

void usage_open(struct usage_reader *r, enum usage_framing framing)
{
	*r = (struct usage_reader){ .framing = framing, .empty = true };
}

/* ---- what is where ---- */

static bool usage_path_is(const char *path, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(around); i++) {
		size_t n = strlen(around[i]);

		if (strncasecmp(path, around[i], n) == 0 && strcasecmp(path + n, name) == 0)
			return true;
	}
	return false;
}

static bool usage_has_path(const struct usage_reader *r)
{
	return r->depth && r->followed == r->depth;
}

static bool names_model(const struct usage_reader *r)
{
	for (size_t i = 0; usage_has_path(r) && i < ARRAY_LEN(names); i++)
		if (usage_path_is(r->path, names[i]))
			return true;
	return false;
}

static void usage_count(struct usage_reader *r, enum usage_number is)
{
	uint64_t v = r->number + r->part;

	if (r->negative || r->exponent || r->huge || !r->digits || v > USAGE_MOST) {
		r->u.bad = true;
		return;
	}
	if (v > r->u.n[is])
		r->u.n[is] = v;
	r->u.in |= is == USAGE_IN || is == USAGE_TOTAL;
	r->u.out |= is == USAGE_OUT;
	if (is == USAGE_OUT || is == USAGE_THOUGHTS || is == USAGE_TOTAL)
		r->u.since = 0;
}

static void usage_number_ends(struct usage_reader *r)
{
	for (size_t i = 0; usage_has_path(r) && i < ARRAY_LEN(numbers); i++)
		if (usage_path_is(r->path, numbers[i].path))
			usage_count(r, numbers[i].is);
}

/* A text where a number is said is none. */
static void usage_odd_value(struct usage_reader *r)
{
	for (size_t i = 0; usage_has_path(r) && i < ARRAY_LEN(numbers); i++)
		if (usage_path_is(r->path, numbers[i].path))
			r->u.bad = true;
}

static void model_ends(struct usage_reader *r)
{
	r->text[r->n_text] = '\0';
	if (r->cut) /* two long ones that begin alike are not the same */
		r->text[0] = '?';
	if (!r->u.model[0])
		memcpy(r->u.model, r->text, sizeof(r->u.model));
	if (r->named)
		r->named(r->arg, r->text);
}

/* ---- levels ---- */

static bool usage_in_object(const struct usage_reader *r)
{
	return r->depth && (r->objects >> (r->depth - 1) & 1);
}

static void usage_lose(struct usage_reader *r)
{
	r->lost = true;
	if (r->framing == USAGE_JSON)
		r->u.bad = true;
}

static void usage_value_ends(struct usage_reader *r)
{
	r->state = AT_NEXT;
	if (!r->depth) {
		r->u.ended = true;
		r->state = AT_VALUE;
	}
}

/* The path of a member is that of its object and its name. */
static void usage_key_ends(struct usage_reader *r)
{
	size_t at = r->at[r->depth - 1], n = r->n_text;

	r->state = AT_COLON;
	r->followed = 0;
	if (r->open != r->depth || r->cut || !n || at + n + 1 > USAGE_PATH ||
	    memchr(r->text, '.', n) || memchr(r->text, '\0', n))
		return;
	memcpy(r->path + at, r->text, n);
	r->len = (unsigned char)(at + n);
	r->path[r->len] = '\0';
	r->followed = r->depth;
}

/* What is in an array has no path, but in the one around everything. */
static void usage_go_down(struct usage_reader *r, bool object)
{
	bool outer = !r->depth || (object && r->depth == 1 && !usage_in_object(r));

	if (r->depth == USAGE_DEPTH) {
		usage_lose(r);
		return;
	}
	if (outer) {
		r->at[r->depth] = 0;
		r->open = r->depth + 1;
	} else if (object && usage_has_path(r) && r->len + 2U < USAGE_PATH) {
		r->path[r->len] = '.';
		r->at[r->depth] = (unsigned char)(r->len + 1);
		r->open = r->depth + 1;
	}
	r->objects &= ~((uint64_t)1 << r->depth);
	r->objects |= (uint64_t)object << r->depth;
	r->depth++;
	r->state = object ? AT_KEY : AT_VALUE;
}

static void usage_go_up(struct usage_reader *r)
{
	r->depth--;
	r->followed = 0;
	if (r->open > r->depth)
		r->open = r->depth;
	usage_value_ends(r);
}

/* ---- one byte ---- */

static void usage_string_begins(struct usage_reader *r, bool key)
{
	r->state = IN_STRING;
	r->of_string = key ? A_KEY : A_VALUE;
	r->n_text = 0;
	r->cut = false;
	r->wanted = key || names_model(r);
}

static void usage_put(struct usage_reader *r, unsigned c)
{
	if (!r->wanted)
		return;
	if (r->n_text == USAGE_MODEL_MAX)
		r->cut = true;
	else
		r->text[r->n_text++] = (char)c;
}

static void usage_string_ends(struct usage_reader *r)
{
	if (r->of_string == A_KEY) {
		usage_key_ends(r);
		return;
	}
	if (r->wanted)
		model_ends(r);
	else
		usage_odd_value(r);
	usage_value_ends(r);
}

/* Whatever it is but false and null: servers differ in what they take for true. */
static void usage_seen_later(struct usage_reader *r, char c)
{
	for (size_t i = 0; usage_has_path(r) && i < ARRAY_LEN(later); i++)
		r->u.later |= strcasecmp(r->path, later[i]) == 0 && c != 'f' && c != 'n';
}

static void usage_value_begins(struct usage_reader *r, char c)
{
	usage_seen_later(r, c);
	if (c == '"') {
		usage_string_begins(r, false);
	} else if (c == '{' || c == '[') {
		usage_go_down(r, c == '{');
	} else if (c == ']' && r->depth && !usage_in_object(r)) {
		usage_go_up(r);
	} else if (c == '-' || (c >= '0' && c <= '9')) {
		r->state = IN_NUMBER;
		r->negative = c == '-';
		r->part = r->huge = r->exponent = r->point = false;
		r->digits = c != '-';
		r->number = c == '-' ? 0 : (uint64_t)(c - '0');
	} else if (c >= 'a' && c <= 'z') {
		r->state = IN_WORD;
	} else {
		usage_lose(r);
	}
}

static bool usage_in_number(struct usage_reader *r, char c)
{
	if (c >= '0' && c <= '9') {
		r->digits = true;
		if (r->exponent || r->point)
			r->part |= c != '0';
		else if (r->number > USAGE_MOST)
			r->huge = true;
		else
			r->number = r->number * 10 + (uint64_t)(c - '0');
		return true;
	}
	if (c == '.' && !r->point)
		return r->point = true;
	if (c == 'e' || c == 'E' || c == '+' || c == '-')
		return r->exponent = true;
	return false;
}

static void usage_structure(struct usage_reader *r, char c)
{
	if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
		return;
	if (r->state == AT_VALUE)
		usage_value_begins(r, c);
	else if (r->state == AT_KEY && c == '"')
		usage_string_begins(r, true);
	else if (r->state == AT_COLON && c == ':')
		r->state = AT_VALUE;
	else if (r->state == AT_NEXT && c == ',')
		r->state = usage_in_object(r) ? AT_KEY : AT_VALUE;
	else if ((r->state == AT_NEXT || r->state == AT_KEY) &&
		 c == (usage_in_object(r) ? '}' : ']'))
		usage_go_up(r);
	else
		usage_lose(r);
}

static void usage_escape(struct usage_reader *r, char c)
{
	static const char short_ones[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *found = c ? strchr(short_ones, c) : NULL;

	r->state = IN_STRING;
	if (c == 'u') {
		r->state = IN_HEX;
		r->hex = 0;
		r->code = 0;
	} else if (found) {
		usage_put(r, (unsigned char)means[found - short_ones]);
	} else {
		usage_lose(r);
	}
}

static void usage_hex(struct usage_reader *r, char c)
{
	int v = hex_nibble(c);

	if (v < 0) {
		usage_lose(r);
		return;
	}
	r->code = r->code << 4 | (unsigned)v;
	if (++r->hex < 4)
		return;
	/* Further signs are in no name that is looked for. */
	usage_put(r, r->code < 0x80 ? r->code : 0x80);
	r->state = IN_STRING;
}

static void usage_byte(struct usage_reader *r, char c)
{
	switch (r->state) {
	case IN_STRING:
		if (c == '"')
			usage_string_ends(r);
		else if (c == '\\')
			r->state = IN_ESCAPE;
		else
			usage_put(r, (unsigned char)c);
		return;
	case IN_ESCAPE:
		usage_escape(r, c);
		return;
	case IN_HEX:
		usage_hex(r, c);
		return;
	case IN_NUMBER:
		if (usage_in_number(r, c))
			return;
		usage_number_ends(r);
		break;
	case IN_WORD:
		if (c >= 'a' && c <= 'z')
			return;
		break;
	default:
		usage_structure(r, c);
		return;
	}
	usage_value_ends(r);
	usage_structure(r, c);
}

/* ---- texts ---- */

/* The strings of an answer are most of it, and nobody wants them. */
static size_t usage_skip(const struct usage_reader *r, const char *p, size_t n)
{
	size_t i = 0;

	if (r->state == IN_STRING && !r->wanted)
		while (i < n && p[i] != '"' && p[i] != '\\')
			i++;
	return i;
}

static void usage_json(struct usage_reader *r, const char *p, size_t n)
{
	for (size_t i = 0; i < n && !r->lost;) {
		size_t skip = usage_skip(r, p + i, n - i);

		r->u.since += skip;
		i += skip;
		if (i < n) {
			r->u.since++;
			usage_byte(r, p[i++]);
		}
	}
	if (r->lost)
		r->u.since += n;
}

/* An event ends with an empty line. What of it is no data, or no JSON, as "[DONE]", says nothing.
 */
static void usage_restart(struct usage_reader *r)
{
	r->state = AT_VALUE;
	r->depth = r->open = r->followed = 0;
	r->lost = false;
}

static void usage_line_ends(struct usage_reader *r)
{
	if (r->line == LINE_DATA)
		usage_json(r, "\n", 1);
	if (r->empty)
		usage_restart(r);
	r->empty = true;
	r->line = 0;
}

/* The bytes of a line, of which there may be more. */
static void usage_line(struct usage_reader *r, const char *p, size_t n)
{
	size_t i = 0;

	r->empty = r->empty && !n;
	while (i < n && r->line < LINE_DATA)
		r->line = p[i++] == data_word[r->line] ? r->line + 1 : LINE_OTHER;
	if (r->line == LINE_DATA)
		usage_json(r, p + i, n - i);
	else
		r->u.since += n;
}

static void usage_events(struct usage_reader *r, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t from = i;

		while (i < n && p[i] != '\n' && p[i] != '\r')
			i++;
		usage_line(r, p + from, i - from);
		r->cr = r->cr && i == from;
		if (i == n)
			return;
		if (p[i] == '\r' || !r->cr)
			usage_line_ends(r);
		r->cr = p[i] == '\r';
	}
}

void usage_feed(struct usage_reader *r, const char *p, size_t n)
{
	if (r->framing == USAGE_EVENTS)
		usage_events(r, p, n);
	else
		usage_json(r, p, n);
}

void usage_end(struct usage_reader *r)
{
	if (r->framing == USAGE_JSON && !r->lost)
		usage_json(r, "\n", 1);
	if (r->framing == USAGE_JSON && (r->depth || r->state != AT_VALUE))
		r->u.bad = true;
}

struct usage_sum usage_sum(const struct usage *u)
{
	struct usage_sum s = {
		.in = u->n[USAGE_IN] + u->n[USAGE_READ] + u->n[USAGE_WRITTEN] + u->n[USAGE_TOOLS],
		.cached = u->n[USAGE_READ],
		.written = u->n[USAGE_WRITTEN],
		.hour = u->n[USAGE_HOUR],
		.out = u->n[USAGE_OUT] + u->n[USAGE_THOUGHTS],
	};

	s.cached += u->n[USAGE_CACHED] < u->n[USAGE_IN] ? u->n[USAGE_CACHED] : u->n[USAGE_IN];
	if (s.hour > s.written)
		s.hour = s.written;
	/* What is in the total alone, as some vendors' reasoning, came out. */
	if (u->n[USAGE_TOTAL] > s.in + s.out)
		s.out = u->n[USAGE_TOTAL] - s.in;
	return s;
}

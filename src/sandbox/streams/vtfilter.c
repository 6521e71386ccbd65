/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox/streams/vtfilter.c - one byte at a time through the states of ECMA-48.
 *
 * Sequences are dropped as a whole where they begin with ESC, so that no payload litters the
 * screen. Controls of 8 bits are dropped alone: no UTF-8 terminal should obey them, and to swallow
 * what follows one would hide honest text in an old encoding. A sequence that does not end is given
 * up after a while; since its beginning never got out, the rest is only text. */
#include "sandbox/streams/vtfilter.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/str.h"

#define ESC 0x1b
#define DROP_MAX 65536

#define CAN 0x18
#define SUB 0x1a

/* Where the output goes. */
struct sink {
	char *out;
	size_t n;
};

static void emit(struct sink *s, const char *p, size_t n)
{
	memcpy(s->out + s->n, p, n);
	s->n += n;
}

static void vtfilter_enter(struct vtfilter *f, enum vt_state state)
{
	f->state = state;
	f->held_len = f->dropped = 0;
	f->last = 0;
}

static void vtfilter_hold(struct vtfilter *f, unsigned char c)
{
	f->held[f->held_len++] = (char)c;
}

/* A held character that is none: each of its bytes by itself. */
static void replace_held(struct vtfilter *f, struct sink *s)
{
	for (size_t i = 0; i < f->held_len; i++)
		emit(s, "?", 1);
	vtfilter_enter(f, VT_TEXT);
}

static size_t char_len(unsigned char lead)
{
	if (lead < 0xe0)
		return lead < 0xc2 ? 1 : 2;
	return lead < 0xf0 ? 3 : 4;
}

static bool between(unsigned char c, unsigned char low, unsigned char high)
{
	return c >= low && c <= high;
}

/* C1 controls, and what turns the reading order round: U+202A to U+202E, U+2066 to U+2069. */
static bool is_hostile(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;

	if (n == 2)
		return u[0] == 0xc2 && u[1] < 0xa0;
	if (n != 3 || u[0] != 0xe2)
		return false;
	return (u[1] == 0x80 && between(u[2], 0xaa, 0xae)) ||
	       (u[1] == 0x81 && between(u[2], 0xa6, 0xa9));
}

static void on_text(struct vtfilter *f, unsigned char c, struct sink *s)
{
	char byte = (char)c;

	if (c == ESC) {
		vtfilter_enter(f, VT_ESC);
	} else if (c < 0x20) {
		if (c && strchr("\n\r\t\b\a\f", c))
			emit(s, &byte, 1);
		f->mid_line =
			c == '\n' ? false : f->mid_line || c == '\t' || c == '\b' || c == '\r';
	} else if (c < 0x7f) {
		emit(s, &byte, 1);
		f->mid_line = true;
	} else if (between(c, 0xc2, 0xf4)) {
		vtfilter_enter(f, VT_CHARACTER);
		vtfilter_hold(f, c);
	} else if (c >= 0xa0) {
		emit(s, "?", 1);
	}
}

/* Returns whether the byte was part of it; if not, it is looked at again as text. */
static bool on_character(struct vtfilter *f, unsigned char c, struct sink *s)
{
	size_t want = char_len((unsigned char)f->held[0]);

	if (!between(c, 0x80, 0xbf)) {
		replace_held(f, s);
		return false;
	}
	vtfilter_hold(f, c);
	if (f->held_len < want)
		return true;
	if (utf8_len(f->held, want) != want) {
		replace_held(f, s);
		return true;
	}
	if (!is_hostile(f->held, want))
		emit(s, f->held, want);
	f->mid_line = true;
	vtfilter_enter(f, VT_TEXT);
	return true;
}

static bool on_esc(struct vtfilter *f, unsigned char c)
{
	if (c == ESC)
		return true;
	if (c == '[') {
		vtfilter_enter(f, VT_CSI);
		vtfilter_hold(f, ESC);
		vtfilter_hold(f, '[');
		return true;
	}
	/* k is the title of screen and tmux. */
	if (c && strchr("]PX^_k", c)) {
		vtfilter_enter(f, VT_STRING);
		return true;
	}
	if (between(c, 0x20, 0x2f)) {
		vtfilter_enter(f, VT_ESC_MORE);
		return true;
	}
	vtfilter_enter(f, VT_TEXT);
	return between(c, 0x30, 0x7e);
}

/* Parameters without intermediate or private bytes, for a final byte that only paints. */
static bool is_safe_csi(const char *p, size_t n, unsigned char final)
{
	if (n == 3 && memcmp(p, "?25", 3) == 0)
		return final == 'h' || final == 'l';
	for (size_t i = 0; i < n; i++)
		if (!between((unsigned char)p[i], '0', ';'))
			return false;
	/* 3J would erase the caller's scrollback. */
	if (final == 'J')
		return n == 0 || (n == 1 && p[0] <= '2');
	return final == 'm' || final == 'K' || between(final, 'A', 'H');
}

/* What has to be undone of a sequence that passes. */
static void note_csi(struct vtfilter *f, const char *p, size_t n, unsigned char final)
{
	if (final == 'm')
		f->painted = !(n == 0 || (n == 1 && p[0] == '0'));
	else if (final == 'h' || final == 'l')
		f->hidden = final == 'l';
	else
		f->moved = true;
}

static bool on_csi(struct vtfilter *f, unsigned char c, struct sink *s)
{
	if (!between(c, 0x20, 0x7e)) {
		vtfilter_enter(f, VT_TEXT);
		return false;
	}
	if (c < 0x40) {
		if (f->held_len < sizeof(f->held))
			vtfilter_hold(f, c);
		else
			vtfilter_enter(f, VT_CSI_DROP);
		return true;
	}
	if (is_safe_csi(f->held + 2, f->held_len - 2, c)) {
		char final = (char)c;

		note_csi(f, f->held + 2, f->held_len - 2, c);
		emit(s, f->held, f->held_len);
		emit(s, &final, 1);
	}
	vtfilter_enter(f, VT_TEXT);
	return true;
}

/* The tail of a sequence that ends with its first byte from `final` on. */
static bool on_tail(struct vtfilter *f, unsigned char c, unsigned char final)
{
	if (!between(c, 0x20, 0x7e) || ++f->dropped > DROP_MAX) {
		vtfilter_enter(f, VT_TEXT);
		return false;
	}
	if (c >= final)
		vtfilter_enter(f, VT_TEXT);
	return true;
}

/* ST is ESC \, U+009C, or that as a single byte where it cannot be the rest of a character. */
static bool on_string(struct vtfilter *f, unsigned char c)
{
	bool ends = c == '\a' || c == CAN || c == SUB ||
		    (c == 0x9c && (f->last < 0x80 || f->last == 0xc2));

	if (++f->dropped > DROP_MAX) {
		vtfilter_enter(f, VT_TEXT);
		return false;
	}
	f->last = c;
	if (ends)
		vtfilter_enter(f, VT_TEXT);
	else if (c == ESC)
		f->state = VT_STRING_ESC;
	return true;
}

/* false: the state has changed and wants to see the byte too */
static bool on_byte(struct vtfilter *f, unsigned char c, struct sink *s)
{
	switch (f->state) {
	case VT_TEXT:
		on_text(f, c, s);
		return true;
	case VT_CHARACTER:
		return on_character(f, c, s);
	case VT_ESC:
		return on_esc(f, c);
	case VT_ESC_MORE:
		return on_tail(f, c, 0x30);
	case VT_CSI:
		return on_csi(f, c, s);
	case VT_CSI_DROP:
		return on_tail(f, c, 0x40);
	case VT_STRING:
		return on_string(f, c);
	case VT_STRING_ESC:
		vtfilter_enter(f, c == '\\' ? VT_TEXT : VT_ESC);
		return c == '\\';
	}
	return true;
}

void vtfilter_init(struct vtfilter *f)
{
	vtfilter_enter(f, VT_TEXT);
	f->painted = f->hidden = f->moved = f->mid_line = false;
}

size_t vtfilter_run(struct vtfilter *f, const char *in, size_t n, char *out)
{
	struct sink s = { .out = out };

	for (size_t i = 0; i < n; i++)
		while (!on_byte(f, (unsigned char)in[i], &s))
			;
	return s.n;
}

size_t vtfilter_flush(struct vtfilter *f, char *out)
{
	struct sink s = { .out = out };

	if (f->state == VT_CHARACTER)
		replace_held(f, &s);
	if (f->painted)
		emit(&s, "\033[0m", 4);
	if (f->hidden)
		emit(&s, "\033[?25h", 6);
	f->painted = f->hidden = false;
	vtfilter_enter(f, VT_TEXT);
	return s.n;
}

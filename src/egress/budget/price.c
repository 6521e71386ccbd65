/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/budget/price.h"

#include <string.h>

#include "base/text/num.h"
#include "base/text/str.h"

#define PRICE_MOST 1000000 /* a thousand USD for a million */
#define LONG_REQUEST 200000
#define NUMBERS_MAX 4

static bool price_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *behind_word(const char *s)
{
	static const char *const words[] = { "-latest", "-preview", "-exp" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strncmp(s, words[i], strlen(words[i])) == 0)
			return s + strlen(words[i]);
	return s;
}

/* A date, or a number of three digits, but no further part of a version. */
static bool is_edition(const char *s)
{
	size_t digits = 0;

	s = behind_word(s);
	if (!*s)
		return true;
	if (*s != '-' && *s != '@')
		return false;
	for (s++; *s; s++) {
		digits += price_is_digit(*s);
		if (!price_is_digit(*s) && *s != '-')
			return false;
	}
	return digits >= 3;
}

/* Vendors write 4-5 where those who pass it on write 4.5. */
static bool price_is_for(const char *row, const char *model)
{
	while (*row && (*row == *model || (*row == '-' && *model == '.') ||
			(*row == '.' && *model == '-'))) {
		row++;
		model++;
	}
	return !*row && is_edition(model);
}

static const struct model_price *price_in(const struct model_price *v, size_t n, const char *model)
{
	for (size_t i = 0; i < n && v[i].model; i++)
		if (price_is_for(v[i].model, model))
			return &v[i];
	return NULL;
}

const struct model_price *price_find(const struct price_list *own, const char *model)
{
	const struct model_price *p = NULL;

	while (!p && *model) {
		p = price_in(own->v, own->n, model);
		if (!p)
			p = price_in(model_prices, SIZE_MAX, model);
		model = strchr(model, '/');
		if (!model)
			break;
		model++;
	}
	return p;
}

uint64_t price_of(const struct model_price *p, const struct usage_sum *s)
{
	uint64_t in = p->in, cached = p->cached, written = p->written, out = p->out;
	uint64_t plain = s->in - s->cached - s->written;

	if (p->longer && s->in > LONG_REQUEST) {
		in *= 2;
		cached *= 2;
		written *= 2;
		out += out / 2;
	}
	return plain * in + s->cached * cached + (s->written - s->hour) * written +
	       s->hour * (in * 2 > written ? in * 2 : written) + s->out * out;
}

static int price_refuse(const char *text, struct err *e)
{
	return err_refuse(e, ERR_CONFIG, EINVAL,
			  "'MODEL IN OUT [CACHED [WRITTEN]]', as in 'my-model 0.50 1.50 0.05'",
			  "'%.100s' is not a model and its prices in USD for a million tokens",
			  text);
}

static int read_price(struct arena *a, const char *text, struct model_price *ret, struct err *e)
{
	size_t n = strcspn(text, " ");
	const char *model = arena_strndup(a, text, n);
	uint64_t v[NUMBERS_MAX];
	size_t count = 0;

	if (!model)
		return err_nomem(e);
	for (text += n; *text == ' '; count++) {
		char number[24];

		text += strspn(text, " ");
		n = strcspn(text, " ");
		if (count == NUMBERS_MAX || n >= sizeof(number))
			return price_refuse(model, e);
		memcpy(number, text, n);
		number[n] = '\0';
		if (num_milli(number, &v[count]) < 0 || v[count] > PRICE_MOST)
			return price_refuse(model, e);
		text += n;
	}
	if (!*model || strlen(model) > USAGE_MODEL_MAX || count < 2)
		return price_refuse(model, e);
	*ret = (struct model_price){ .model = model,
				     .in = (uint32_t)v[0],
				     .out = (uint32_t)v[1],
				     .cached = (uint32_t)(count > 2 ? v[2] : v[0]),
				     .written = (uint32_t)(count > 3 ? v[3] : v[0]) };
	return 0;
}

int price_list_read(struct arena *a, const struct strlist *texts, struct price_list *ret,
		    struct err *e)
{
	for (size_t i = 0; i < texts->n; i++) {
		struct model_price *slot = ARENA_PUSH(a, ret->v, ret->n);

		if (!slot)
			return err_nomem(e);
		if (read_price(a, texts->v[i], slot, e) < 0)
			return err_wrap(e, "egress.prices");
	}
	return 0;
}

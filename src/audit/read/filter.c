/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/filter.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "audit/events.h"
#include "base/text/str.h"

/* What the table calls routine is left out; types it does not know are not. */
static bool is_security(struct slice type)
{
	for (int i = 0; i < EVENT_COUNT; i++)
		if (slice_eq(type, event_types[i].name))
			return event_types[i].security || i == EVENT_SANDBOX_EXEC;
	return true;
}

/* "egress.*": how much of a pattern must be equal, when it is not all of it. */
static bool prefix_of(const char *pattern, size_t *n)
{
	*n = strlen(pattern);
	if (!*n || pattern[*n - 1] != '*')
		return false;
	(*n)--;
	return true;
}

static bool type_fits(const char *pattern, struct slice type)
{
	size_t n;

	if (!prefix_of(pattern, &n))
		return slice_eq(type, pattern);
	return type.n >= n && memcmp(type.p, pattern, n) == 0;
}

bool filter_match_type(const struct filter *f, struct slice type)
{
	for (size_t i = 0; i < f->type_count; i++)
		if (type_fits(f->types[i], type))
			return true;
	if (f->type_count)
		return false;
	return !f->security || is_security(type);
}

static bool text_match(const char *want, struct slice have)
{
	return !want || slice_means(have, want);
}

static bool host_match(const char *want, struct slice have)
{
	size_t n;

	if (!want)
		return true;
	n = strlen(want);
	if (!have.p)
		return false;
	if (!str_starts(want, "*."))
		return (have.n == n && strncasecmp(have.p, want, n) == 0) ||
		       slice_means(have, want);
	return have.n > n - 1 && strncasecmp(have.p + have.n - (n - 1), want + 1, n - 1) == 0;
}

static bool run_match(const char *want, struct slice have)
{
	return !want ||
	       (have.p && have.n >= strlen(want) && memcmp(have.p, want, strlen(want)) == 0);
}

bool filter_match(const struct filter *f, const struct entry *en)
{
	return filter_match_type(f, en->type) && run_match(f->run, en->run) &&
	       (!f->since || en->time >= f->since) && (!f->until || en->time <= f->until) &&
	       text_match(f->outcome, en->outcome) && host_match(f->host, en->host) &&
	       text_match(f->principal, en->principal) && text_match(f->agent, en->agent);
}

static bool is_known(const char *pattern)
{
	for (int i = 0; i < EVENT_COUNT; i++)
		if (type_fits(pattern, (struct slice){ .p = event_types[i].name,
						       .n = strlen(event_types[i].name) }))
			return true;
	return false;
}

static int unknown_type(const char *text, struct err *e)
{
	const char *names[EVENT_COUNT + 1] = { NULL }, *near;

	for (int i = 0; i < EVENT_COUNT; i++)
		names[i] = event_types[i].name;
	near = str_nearest(text, names);
	(void)err_set(e, ERR_USAGE, EINVAL, "'%.64s' is not a type of event", text);
	return near ? err_hint(e, "did you mean '%s'?", near)
		    : err_hint(e, "brig audit list shows the types there are");
}

int filter_add_type(struct filter *f, const char *text, struct err *e)
{
	const char *star = strchr(text, '*');

	if (!text[0] || strlen(text) > 64 || (star && star[1]))
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "a name like limit.hit, or the beginning of some: 'egress.*'",
				  "'%.64s' is not a type of event", text);
	if (!is_known(text))
		return unknown_type(text, e);
	if (f->type_count == FILTER_TYPES_MAX)
		return err_set(e, ERR_USAGE, E2BIG, "more than %d types", FILTER_TYPES_MAX);
	f->types[f->type_count++] = text;
	return 0;
}

int filter_set_run(struct filter *f, const char *text, struct err *e)
{
	size_t n = strlen(text);

	if (!n || n > 32 || strspn(text, "0123456789abcdef") != n)
		return err_refuse(e, ERR_USAGE, EINVAL,
				  "32 hex digits or the first of them; brig audit list shows them",
				  "'%.64s' is no run id", text);
	f->run = text;
	return 0;
}

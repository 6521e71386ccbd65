/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/read/times.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/num.h"

#define SECOND INT64_C(1000000)
#define DAY (86400 * SECOND)

/* Days since 1970 of a date in the Gregorian calendar; years begin in March, so that the leap day
 * is the last. */
static int64_t days_of(int64_t y, int64_t m, int64_t d)
{
	int64_t era, yoe, doy;

	y -= m <= 2;
	era = y / 400;
	yoe = y - era * 400;
	doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static bool leap(int64_t y)
{
	return (y % 4 == 0 && y % 100) || y % 400 == 0;
}

/* n digits at *p as a number between low and high; moves *p, -1 when it is none. */
static int64_t times_number(const char **p, const char *end, int n, int64_t low, int64_t high)
{
	int64_t v = 0;

	if (end - *p < n)
		return -1;
	for (int i = 0; i < n; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return -1;
		v = v * 10 + (**p - '0');
	}
	return v >= low && v <= high ? v : -1;
}

static bool sign(const char **p, const char *end, const char *one_of)
{
	if (*p >= end || !**p || !strchr(one_of, **p))
		return false;
	(*p)++;
	return true;
}

static int64_t month_days(int64_t y, int64_t m)
{
	static const char lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return lengths[m - 1] + (m == 2 && leap(y));
}

static int date_parse(const char **p, const char *end, int64_t *days)
{
	int64_t y = times_number(p, end, 4, 1970, 9999), m, d;

	if (y < 0 || !sign(p, end, "-"))
		return -EINVAL;
	m = times_number(p, end, 2, 1, 12);
	if (m < 1 || !sign(p, end, "-"))
		return -EINVAL;
	d = times_number(p, end, 2, 1, month_days(y, m));
	if (d < 0)
		return -EINVAL;
	*days = days_of(y, m, d);
	return 0;
}

/* hh:mm:ss, a fraction of any length of which six digits count. */
static int clock_parse(const char **p, const char *end, int64_t *us)
{
	int64_t h = times_number(p, end, 2, 0, 23), m, s, scale = SECOND / 10;

	if (h < 0 || !sign(p, end, ":") || (m = times_number(p, end, 2, 0, 59)) < 0 ||
	    !sign(p, end, ":") || (s = times_number(p, end, 2, 0, 60)) < 0)
		return -EINVAL;
	*us = ((h * 60 + m) * 60 + s) * SECOND;
	if (!sign(p, end, "."))
		return 0;
	if (*p >= end || **p < '0' || **p > '9')
		return -EINVAL;
	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++, scale /= 10)
		*us += (**p - '0') * scale;
	return 0;
}

static int zone_parse(const char **p, const char *end, int64_t *us)
{
	int64_t h, m;
	bool west;

	if (sign(p, end, "Zz")) {
		*us = 0;
		return 0;
	}
	west = *p < end && **p == '-';
	if (!sign(p, end, "+-") || (h = times_number(p, end, 2, 0, 23)) < 0 || !sign(p, end, ":") ||
	    (m = times_number(p, end, 2, 0, 59)) < 0)
		return -EINVAL;
	*us = (h * 60 + m) * 60 * SECOND * (west ? -1 : 1);
	return 0;
}

int time_parse(const char *p, size_t n, int64_t *ret)
{
	const char *end = p + n;
	int64_t days, us = 0, zone = 0;

	if (date_parse(&p, end, &days) < 0)
		return -EINVAL;
	if (p < end && (!sign(&p, end, "Tt ") || clock_parse(&p, end, &us) < 0 ||
			zone_parse(&p, end, &zone) < 0 || p != end))
		return -EINVAL;
	*ret = days * DAY + us - zone;
	return 0;
}

void time_text(int64_t us, char *out, size_t n)
{
	int64_t days = us / DAY, in_day = us % DAY, era, doe, yoe, doy, mp;
	int64_t s = in_day / SECOND;

	if (us < 0)
		days = in_day = s = 0;
	days += 719468;
	era = days / 146097;
	doe = days - era * 146097;
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	(void)snprintf(out, n, "%04lld-%02lld-%02lldT%02lld:%02lld:%02lld.%06lldZ",
		       (long long)(yoe + era * 400 + (mp >= 10)),
		       (long long)(mp < 10 ? mp + 3 : mp - 9),
		       (long long)(doy - (153 * mp + 2) / 5 + 1), (long long)(s / 3600),
		       (long long)(s / 60 % 60), (long long)(s % 60), (long long)(in_day % SECOND));
}

int time_when(const char *text, int64_t now, int64_t *ret)
{
	uint64_t ms;

	if (time_parse(text, strlen(text), ret) == 0)
		return 0;
	if (num_duration(text, &ms) < 0 || ms > (uint64_t)now / 1000)
		return -EINVAL;
	*ret = now - (int64_t)ms * 1000;
	return 0;
}

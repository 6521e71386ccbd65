/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_learn.c - lines of what a hostile command asked for, as a file of settings.
 *
 * It always reads back, grants nothing but what was asked for, and of files nothing outside of what
 * the run was granted. */
#include "fuzz.h"

#include <strings.h>

#include "apps/learn/learn_text.h"
#include "base/text/str.h"
#include "model/files/config.h"
#include "model/settings/rule.h"

static const char *const read_places[] = { "/srv/data", "/srv/data/in" };
static const char *const write_places[] = { "/srv/out" };

static char *cut(char **at, char end)
{
	char *p = *at, *stop = p ? strchr(p, end) : NULL;

	*at = stop ? stop + 1 : NULL;
	if (stop)
		*stop = '\0';
	return p ? p : (char *)"";
}

/* "HOST METHOD PORT PATH FIELDS", or a path behind '<', '>' or '?'. */
static void see(struct sightings *s, char *line)
{
	char *at = line + 1, *host, *method, *port, *path;

	if (*line == '<' || *line == '>') {
		sightings_file(s, at, strchr(at, '%') != NULL, *line == '>');
		return;
	}
	if (*line == '?') {
		sightings_missed(s, at);
		return;
	}
	host = cut(&line, ' ');
	method = cut(&line, ' ');
	port = cut(&line, ' ');
	path = cut(&line, ' ');
	if (strlen(host) < 256 && strlen(method) < 32 && strlen(path) <= 206)
		sightings_request(s, host, (uint16_t)strtoul(port, NULL, 10), method, path,
				  line ? line : "");
}

static bool was_asked_for(const struct sightings *s, const struct rule *r)
{
	for (size_t i = 0; i < s->n_requests; i++)
		if (strcasecmp(s->requests[i].host, r->host) == 0 &&
		    s->requests[i].port == (r->n_ports ? r->ports[0] : 443))
			return true;
	return false;
}

static bool is_granted(const char *path, const char *const *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (seen_below(path, places[i]))
			return true;
	return false;
}

static void require_narrow(struct spec *s, const struct sightings *seen)
{
	struct err e = { 0 };
	struct rule r;

	for (size_t i = 0; i < s->egress.allow.n; i++) {
		require(rule_parse(s->arena, s->egress.allow.v[i], &r, &e) == 0);
		require(!r.group && r.host[0] != '*' && was_asked_for(seen, &r));
	}
	for (size_t i = 0; i < s->egress.fields.n; i++)
		require(!strchr(s->egress.fields.v[i], '*'));
	for (size_t i = 0; i < s->read.n; i++)
		require(is_granted(s->read.v[i], read_places, 2) ||
			is_granted(s->read.v[i], write_places, 1));
	for (size_t i = 0; i < s->write.n; i++)
		require(is_granted(s->write.v[i], write_places, 1));
	for (int i = 0; i < FIELD_COUNT; i++)
		require(!spec_wrote(s, (enum field_id)i) || i == FIELD_NETWORK ||
			i == FIELD_EGRESS_ALLOW || i == FIELD_EGRESS_FIELDS || i == FIELD_READ ||
			i == FIELD_WRITE);
}

static void require_reads(const struct learn_text *t)
{
	const struct source src = { .name = "f.yaml",
				    .folder = "/",
				    .home = "/home/me",
				    .cwd = "/",
				    .origin = ORIGIN_PROJECT,
				    .trusted = true };
	struct buf text = BUF_INIT(LEARN_TEXT_MAX), json = BUF_INIT((size_t)16 << 20);
	struct err e = { 0 };
	struct spec *s = spec_new(&e);
	enum dialect was;
	struct json j;

	learn_write(t, &text);
	require(s && !text.failed);
	require(config_read_text(s, buf_str(&text), text.len, DIALECT_BRIG, &src, &was, &e) == 0);
	require_narrow(s, t->seen);
	json_init(&j, &json, true);
	learn_json(t, buf_str(&text), &j);
	require(!json.failed);
	(void)spec_free(s);
	buf_done(&text);
	buf_done(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = text_of(data, size), *at = text;
	struct sightings *seen = sightings_new();
	struct err e = { 0 };
	struct spec *run = spec_new(&e);
	struct learn_text t = { .run = run, .seen = seen, .arena = arena_new((size_t)16 << 20) };

	require(seen && run && t.arena);
	run->read = (struct strlist){ (const char **)(uintptr_t)read_places, 2 };
	run->write = (struct strlist){ (const char **)(uintptr_t)write_places, 1 };
	for (size_t i = 0; i < 2; i++)
		sightings_place(seen, read_places[i]);
	sightings_place(seen, write_places[0]);
	while (at)
		see(seen, cut(&at, '\n'));
	require(learn_settle(&t, &e) == 0);
	require_reads(&t);
	(void)spec_free(run);
	(void)sightings_free(seen);
	(void)arena_free(t.arena);
	free(text);
	return 0;
}

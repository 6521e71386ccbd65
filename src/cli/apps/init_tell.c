/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/init_tell.c - what "init" has found and done, for people and as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/text/clean.h"
#include "base/text/str.h"
#include "cli/apps/init_cli.h"

#define REPORT_MAX ((size_t)256 << 10)

static void put_path(const struct initiation *x)
{
	CLEANUP(buf) struct buf b = BUF_INIT(4 * PATH_MAX);

	clean_put(&b, x->path, strlen(x->path));
	(void)printf("%s", buf_str(&b));
}

void init_tell_found(const struct initiation *x)
{
	/* Where it is not part of a talk, stdout is the file alone. */
	FILE *to = x->asks || x->asked.yes ? stdout : stderr;

	(void)fprintf(to, "project    ");
	for (size_t i = 0; i < x->found.n; i++)
		(void)fprintf(to, "%s%s (%s)", i ? ", " : "", x->found.markers[i]->name,
			      x->found.markers[i]->what);
	(void)fprintf(to, "%s\n", x->found.n ? "" : "nothing that says what it is");
	for (size_t i = 0; i < x->usable_count; i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		clean_put(&b, x->usable[i].detail, strlen(x->usable[i].detail));
		(void)fprintf(to, "%s %-8s%s%s%s\n", i ? "          " : "backends  ",
			      x->usable[i].backend, x->usable[i].ready ? "ready" : "not ready",
			      x->usable[i].ready ? "" : ": ",
			      x->usable[i].ready ? "" : buf_str(&b));
	}
	if (x->restricted)
		(void)fprintf(to, "AppArmor   keeps brig from making user namespaces; to let it:\n"
				  "             sudo brig doctor --fix\n");
	(void)fprintf(to, "\n");
	(void)fflush(to);
}

/* Who answers sees what is set, on half a screen; the file has remarks besides. */
void init_tell_text(const struct initiation *x)
{
	const char *line = buf_str(&x->text), *end;

	if (!x->asks) {
		(void)printf("%s", line);
		return;
	}
	(void)printf("\n");
	for (; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (end > line && line[strspn(line, " ")] != '#')
			(void)printf("%.*s\n", (int)(end - line), line);
	}
	(void)printf("\n");
}

/* What passed is not news. */
static void tell_doctor(const struct initiation *x)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REPORT_MAX);
	const char *line, *end;
	bool shown = false;

	doctor_text(&x->diagnosis, false, &b);
	for (line = buf_str(&b); *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (*line == '[')
			shown = str_starts(line, "[fail]") || str_starts(line, "[warn]");
		else if (!str_starts(line, "hint: "))
			shown = true;
		if (shown)
			(void)printf("%.*s\n", (int)(end - line), line);
	}
}

/* Lines that can be copied. */
static size_t next_steps(const struct initiation *x, const char *steps[4], char wrap[64])
{
	const char *first = project_first(&x->found, x->answers.network != SETUP_NETWORK_NONE);
	size_t n = 0;

	if (x->wrote && setup_loosens(&x->answers) && !x->allowed)
		steps[n++] = "brig allow";
	if (x->examined && doctor_failed(&x->diagnosis))
		steps[n++] = "brig doctor";
	steps[n++] = first ? first : "brig shell"; /* works everywhere */
	if (x->answers.agent) {
		(void)snprintf(wrap, 64, "brig wrap %s", x->answers.agent);
		steps[n++] = wrap;
	}
	return n;
}

void init_tell_end(const struct initiation *x)
{
	const char *steps[4];
	char wrap[64];
	size_t n;

	if (!x->wrote) {
		(void)fflush(stdout);
		message_print("brig: note", "nothing was written");
		if (!x->asked.dry && !x->asks)
			message_print("hint", "brig init --yes writes it; at a terminal it asks");
		return;
	}
	if (x->image_done)
		(void)printf("%s image %s\n", x->image_done, x->answers.image);
	(void)printf("wrote ");
	put_path(x);
	(void)printf("%s\n",
		     x->allowed ? "; trusted as it is now (brig allow --revoke ends that)" : "");
	tell_doctor(x);
	(void)printf("\nnext:\n");
	n = next_steps(x, steps, wrap);
	for (size_t i = 0; i < n; i++)
		(void)printf("  %s%s\n", str_starts(steps[i], "brig ") ? "" : "brig run -- ",
			     steps[i]);
	(void)printf("  brig examples list\n");
}

static void json_found(const struct initiation *x, struct json *j)
{
	const struct group *groups_found[GROUP_COUNT];
	size_t n = project_groups(&x->found, groups_found);

	json_karray(j, "markers");
	for (size_t i = 0; i < x->found.n; i++)
		json_str(j, x->found.markers[i]->name);
	json_array_end(j);
	json_karray(j, "groups");
	for (size_t i = 0; i < n; i++)
		json_str(j, groups_found[i]->name);
	json_array_end(j);
	json_kstr(j, "agent", x->answers.agent);
	json_karray(j, "backends");
	for (size_t i = 0; i < x->usable_count; i++) {
		json_object(j);
		json_kstr(j, "name", x->usable[i].backend);
		json_kbool(j, "ready", x->usable[i].ready);
		json_kstr(j, "detail", x->usable[i].detail);
		json_object_end(j);
	}
	json_array_end(j);
	json_kbool(j, "apparmor_restricts", x->restricted);
}

int init_tell_json(const struct initiation *x)
{
	CLEANUP(buf) struct buf b = BUF_INIT(REPORT_MAX);
	struct json j;

	json_init(&j, &b, true);
	json_object(&j);
	json_ku64(&j, "schema", 1);
	json_kstr(&j, "file", x->path);
	json_kbool(&j, "written", x->wrote);
	json_kbool(&j, "allowed", x->allowed);
	json_kstr(&j, "content", buf_str(&x->text));
	json_found(x, &j);
	json_kstr(&j, "image", x->image_done ? x->answers.image : NULL);
	json_key(&j, "doctor");
	if (x->examined)
		doctor_json(&x->diagnosis, &j);
	else
		json_null(&j);
	json_object_end(&j);
	buf_putc(&b, '\n');
	return b.failed || fputs(buf_str(&b), stdout) == EOF ? -1 : 0;
}

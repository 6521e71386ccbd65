/* SPDX-License-Identifier: Apache-2.0 */
/* cli/apps/init_ask.c - the questions of "init", each with a default, on a terminal. */
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "cli/apps/init_cli.h"
#include "model/settings/rule.h"

#define ANSWER_MAX 512
#define TRIES 3

static int gave_up(struct err *e)
{
	(void)printf("\n");
	return err_refuse(e, ERR_USAGE, ECANCELED, "brig init --yes asks nothing",
			  "no answer: nothing was written");
}

/* One line, without blanks around it. */
static int init_ask_read_answer(char answer[ANSWER_MAX], struct err *e)
{
	size_t n, at;

	(void)fflush(stdout);
	if (!fgets(answer, ANSWER_MAX, stdin))
		return gave_up(e);
	n = strcspn(answer, "\n");
	if (!answer[n]) { /* longer than any answer, or no newline before the end of input */
		int c = 0;

		while ((c = fgetc(stdin)) != EOF && c != '\n')
			;
		answer[0] = '\0';
		return c == EOF ? gave_up(e) : -EMSGSIZE;
	}
	while (n && strchr(" \t\r", answer[n - 1]))
		n--;
	answer[n] = '\0';
	at = strspn(answer, " \t");
	memmove(answer, answer + at, n + 1 - (at < n ? at : n));
	return 0;
}

typedef int take_fn(struct initiation *x, const char *word, struct err *e);

/* Asks until the answer can be taken; "" is the default. */
static int init_ask_until(struct initiation *x, const char *question, const char *by_default,
			  take_fn *take, struct err *e)
{
	char answer[ANSWER_MAX];
	int r;

	for (int i = 0; i < TRIES; i++) {
		(void)printf("%s [%s]: ", question, by_default);
		r = init_ask_read_answer(answer, e);
		if (r == -ECANCELED)
			return r;
		if (r == 0 && take(x, answer[0] ? answer : by_default, e) == 0)
			return 0;
		if (r < 0)
			message_print("brig", "that is longer than any answer");
		else
			error_print(e);
		err_clear(e);
	}
	return err_refuse(e, ERR_USAGE, ECANCELED, "brig init --help lists what can be said",
			  "three answers that cannot be taken: nothing was written");
}

/* A word, or hosts and groups in a row. */
static int take_network(struct initiation *x, const char *text, struct err *e)
{
	static const char *const words[] = { "none", "packages" };
	char part[ANSWER_MAX];
	struct strlist rules = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_eq(text, words[i]))
			return init_take_network(x, text, e);
	while (*(text += strspn(text, ", \t"))) {
		struct rule r;
		size_t n = strcspn(text, ", \t");

		(void)snprintf(part, sizeof(part), "%.*s", (int)n, text);
		text += n;
		if (rule_parse(x->spec->arena, part, &r, e) < 0 || rule_check_allow(&r, e) < 0 ||
		    list_add_rule(x->spec->arena, &rules, part, e) < 0)
			return -e->code;
	}
	x->answers.allow = rules;
	return init_take_network(x, "proxy", e);
}

static int ask_network(struct initiation *x, struct err *e)
{
	const struct group *found[GROUP_COUNT];
	size_t n = project_groups(&x->found, found);
	char text[256] = "What may commands reach? none, or hosts and groups such as @pypi @git";
	size_t at;

	if (x->asked.network || x->answers.allow.n)
		return 0;
	if (n) {
		at = (size_t)snprintf(text, sizeof(text),
				      "What may commands reach? none, packages (to read:");
		for (size_t i = 0; i < n; i++)
			at += (size_t)snprintf(text + at, sizeof(text) - at, " @%s",
					       found[i]->name);
		(void)snprintf(text + at, sizeof(text) - at, "), or hosts and groups");
	}
	return init_ask_until(x, text, n ? "packages" : "none", take_network, e);
}

static int ask_backend(struct initiation *x, struct err *e)
{
	char text[128] = "What contains them? auto";
	size_t at = strlen(text);

	if (x->asked.backend || x->asked.image)
		return 0;
	for (size_t i = 0; i < x->usable_count; i++)
		if (x->usable[i].ready)
			at += (size_t)snprintf(text + at, sizeof(text) - at, ", %s",
					       x->usable[i].backend);
	return init_ask_until(x, text, "auto", init_take_backend, e);
}

static bool chose_images(const struct initiation *x)
{
	for (size_t i = 0; i < x->usable_count; i++)
		if (x->answers.backend && str_eq(x->usable[i].backend, x->answers.backend))
			return x->usable[i].images;
	return false;
}

static int take_image(struct initiation *x, const char *word, struct err *e)
{
	if (str_eq(word, "build")) {
		x->asked.image = true;
		return 0;
	}
	if (spec_set(x->spec, FIELD_IMAGE, word, ORIGIN_FLAG, e) < 0)
		return -e->code;
	x->asked.image = true;
	x->asked.image_ref = x->spec->image;
	return 0;
}

int init_confirm(const char *question, bool by_default, struct err *e)
{
	char answer[ANSWER_MAX];
	int r;

	for (int i = 0; i < TRIES; i++) {
		(void)printf("%s [%s]: ", question, by_default ? "Y/n" : "y/N");
		r = init_ask_read_answer(answer, e);
		if (r == -ECANCELED)
			return r;
		if (r == 0 && !answer[0])
			return by_default;
		if (r == 0 && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0))
			return 1;
		if (r == 0 && (strcasecmp(answer, "n") == 0 || strcasecmp(answer, "no") == 0))
			return 0;
		(void)printf("yes or no, please\n");
	}
	return 0;
}

/* Nobody but root could do it. */
static int ask_apparmor(struct initiation *x, struct err *e)
{
	int r;

	if (x->asked.apparmor || !x->restricted || geteuid() != 0)
		return 0;
	r = init_confirm("Install an AppArmor profile that lets brig make user namespaces?", true,
			 e);
	x->asked.apparmor = r > 0;
	return r < 0 ? r : 0;
}

static int ask_home(struct initiation *x, struct err *e)
{
	int r = x->answers.keep_home
			? 1
			: init_confirm("Keep a HOME for this project, with its caches, from run to "
				       "run?",
				       false, e);

	x->answers.keep_home = r > 0;
	return r < 0 ? r : 0;
}

/* An engine has no layers. */
static int ask_workspace(struct initiation *x, struct err *e)
{
	if (x->asked.workspace || x->asked.image || chose_images(x))
		return 0;
	return init_ask_until(
		x,
		"Where does what they write go? direct (the folder), overlay (a layer, "
		"for agents that work alone)",
		"direct", init_take_workspace, e);
}

int init_ask(struct initiation *x, struct err *e)
{
	if (ask_network(x, e) < 0 || ask_backend(x, e) < 0 || ask_workspace(x, e) < 0 ||
	    ask_home(x, e) < 0 || ask_apparmor(x, e) < 0)
		return -e->code;
	if (x->asked.image || !chose_images(x))
		return 0;
	return init_ask_until(
		x, "Which image? build (Debian with compilers, git, Python), or a name to pull",
		"build", take_image, e);
}

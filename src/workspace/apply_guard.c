/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply_guard.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/kit/survey/gitdirs.h"
#include "backend/kit/survey/protected_names.h"
#include "base/text/cleanup.h"
#include "base/text/str.h"

/* What commits and checkouts write in a git folder, and git does not obey. Folders end with a
 * slash. Everything else there is by name only. */
static const char *const git_plain[] = {
	"objects/",       "refs/",
	"logs/",          "HEAD",
	"index",          "packed-refs",
	"ORIG_HEAD",      "FETCH_HEAD",
	"COMMIT_EDITMSG", "MERGE_HEAD",
	"MERGE_MSG",      "MERGE_MODE",
	"AUTO_MERGE",     "CHERRY_PICK_HEAD",
	"REVERT_HEAD",    "REBASE_HEAD",
	"SQUASH_MSG",     "description",
	"gc.log",         "gc.pid",
};

/* ... but for these, which lead to others' objects. */
static const char *const git_leads[] = { "objects/info/alternates",
					 "objects/info/http-alternates" };

/* By name and letter: in other letters it may be another file, and some file systems take it for
 * this one. */
static bool is_plain(const char *rel, uint64_t mode, bool deleted)
{
	for (size_t i = 0; i < ARRAY_LEN(git_leads); i++)
		if (strcasecmp(rel, git_leads[i]) == 0)
			return false;
	if (!deleted && !S_ISREG(mode) && !S_ISDIR(mode))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(git_plain); i++) {
		size_t n = strlen(git_plain[i]);

		if (git_plain[i][n - 1] != '/' ? str_eq(rel, git_plain[i])
					       : strncmp(rel, git_plain[i], n - 1) == 0 &&
							 (!rel[n - 1] || rel[n - 1] == '/'))
			return git_plain[i][n - 1] == '/' || !S_ISDIR(mode);
	}
	return false;
}

static size_t first_part(const char *rel)
{
	return strcspn(rel, "/");
}

static struct guard_says guard_git(const struct change *c)
{
	const size_t folder = (size_t)c->git - 1;
	const char *rel = c->path + folder + (c->path[folder] == '/');

	if (!c->git_was)
		return (struct guard_says){ folder ? folder : first_part(rel),
					    "a new git repository, whose settings git obeys",
					    NULL };
	if (!*rel)
		return c->kind == CHANGE_DELETED || c->kind == CHANGE_TYPE
			       ? (struct guard_says){ folder, "a git repository", NULL }
			       : (struct guard_says){ 0 };
	if (is_plain(rel, c->now.mode, c->kind == CHANGE_DELETED))
		return (struct guard_says){ 0 };
	return (struct guard_says){ (size_t)(rel - c->path) + first_part(rel),
				    "git obeys what is there", NULL };
}

/* A `.git` that is no folder leads git somewhere. */
static const char *git_pointer(const struct change *c)
{
	return gitdir_named(c->path) && c->kind != CHANGE_FOLDER && !S_ISDIR(c->now.mode)
		       ? "it leads git to a repository"
		       : NULL;
}

/* At the top, in any letters; what is further down is told of. A link in the place of a folder
 * above leads programs to the name elsewhere. */
static const struct guarded_name *guard_top(const struct change *c)
{
	const size_t n = strlen(c->path);

	for (size_t i = 0; i < guarded_name_count; i++) {
		const struct guarded_name *g = &guarded_names[i];

		if (g->class >= NAME_REPORTED || (g->class == NAME_POINTER && S_ISDIR(c->now.mode)))
			continue;
		if (strncasecmp(c->path, g->name, g->len) == 0 &&
		    (!c->path[g->len] || (c->path[g->len] == '/' && g->class != NAME_POINTER)))
			return g;
		if (S_ISLNK(c->now.mode) && n < g->len && g->name[n] == '/' &&
		    strncasecmp(c->path, g->name, n) == 0)
			return g;
	}
	return NULL;
}

/* Nobody has a list of all that programs read by themselves in a folder they are started in: what
 * is new there and hidden is told. */
static const char new_dot[] = "new, and hidden: programs may read it by themselves";

static bool is_new_dot(const struct change *c)
{
	return c->path[0] == '.' && !strchr(c->path, '/') && c->kind != CHANGE_DELETED &&
	       !c->was.mode;
}

static struct guard_says guard_names(const struct change *c)
{
	const struct guarded_name *g;
	const char *leads = git_pointer(c);

	if (leads && !(c->kind == CHANGE_DELETED && S_ISDIR(c->was.mode)))
		return (struct guard_says){ strlen(c->path), leads, NULL };
	if (c->git) {
		struct guard_says says = guard_git(c);

		if (says.at || *(c->path + c->git - 1))
			return says;
	}
	g = guard_top(c);
	if (g)
		return (struct guard_says){ g->len < strlen(c->path) ? g->len : strlen(c->path),
					    g->reason, NULL };
	g = name_reported(c->path);
	return (struct guard_says){ 0, NULL, g ? g->reason : is_new_dot(c) ? new_dot : NULL };
}

struct guard_says guard_change(const struct change *c)
{
	struct guard_says says = guard_names(c);

	if (!says.at && c->obeyed)
		says = (struct guard_says){ c->obeyed_at, c->obeyed, says.reported };
	return says;
}

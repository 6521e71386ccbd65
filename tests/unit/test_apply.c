/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_apply.c - a layer comes into its workspace whole or not at all: whatever is killed,
 * swapped or full meanwhile; and what programs on the host obey only by name. */
#include "layers.h"

#include <sys/syscall.h>

#include "workspace/apply.h"

#define BEFORE "find . -printf '%P %y %m %l\\n' | sort; find . -type f | sort | xargs cat"

/* What the workspace is, as one text. */
static void state_of(struct buf *b)
{
	FILE *f = popen("cd w && { " BEFORE "; }", "r"); /* NOLINT: a script of the test's own */
	char block[4096];
	size_t n;

	must(f != NULL);
	while ((n = fread(block, 1, sizeof(block), f)) > 0)
		buf_add(b, block, n);
	must(pclose(f) == 0);
}

static void assert_ok(int r, const struct err *e)
{
	if (r < 0)
		fail_msg("%s", e->what);
}

static int apply_these(struct layer *l, const char *const *paths, size_t n, bool force,
		       size_t *done, struct err *e)
{
	const struct apply_asked asked = { paths, n, force };
	CLEANUP(apply) struct apply *a = NULL;

	*done = 0;
	if (apply_begin(l, &a, e) < 0 || apply_judge(a, &asked, e) < 0)
		return -e->code;
	return apply_commit(a, done, e);
}

static int apply_all(struct layer *l, struct err *e)
{
	size_t done;

	return apply_these(l, NULL, 0, false, &done, e);
}

static int undo(bool force, struct err *e)
{
	CLEANUP(fd) int w = open("w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t done;

	return apply_undo(w, force, &done, e);
}

static int recover(struct err *e)
{
	CLEANUP(fd) int w = open("w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return apply_recover(w, e);
}

#define WORKSPACE                                                                                  \
	"cd w && mkdir -p d/sub gone keep && echo a >a && echo b >b && echo c >c && echo d >d/d "  \
	"&&"                                                                                       \
	"echo s >d/sub/s && echo g >gone/g && ln -s a l && echo t >t && echo k >keep/k"
#define CHANGES                                                                                    \
	"echo more >>a && chmod 700 b && rm c && rm -r gone && echo new >d/new && mkdir -p n/m &&" \
	"echo 1 >n/m/1 && ln -sfn b l && rm t && mkdir t && echo in >t/in && chmod 700 keep &&"    \
	"mv d/sub/s s && echo x >n/x"

static void all_of_it_comes_and_goes_back(void **state UNUSED)
{
	struct buf was = BUF_INIT(1 << 20), now = BUF_INIT(1 << 20), back = BUF_INIT(1 << 20);
	struct err e = { 0 };
	struct layer l;

	shell(WORKSPACE);
	state_of(&was);
	layer_of(&l, CHANGES);
	assert_ok(apply_all(&l, &e), &e);
	shell("cd w && grep -q more a && test -x b && test ! -e c && test ! -e gone &&"
	      "test -f d/new && test -f n/m/1 && test \"$(readlink l)\" = b && test -f t/in &&"
	      "test $(stat -c %a keep) = 700 && test -f s && test -f keep/k && ! test -e d/sub/s &&"
	      "! getfattr -R -d -m user.overlay . 2>/dev/null | grep -q overlay");
	state_of(&now);
	layer_done(&l);
	assert_ok(undo(false, &e), &e);
	state_of(&back);
	assert_string_equal(buf_str(&was), buf_str(&back));
	/* The layer has it again, and no conflict with what an undo has moved. */
	assert_int_equal(layer_open("last", NULL, LAYER_ALONE, &l, &e), -ENOENT);
	assert_int_equal(layer_open("0000", NULL, LAYER_ALONE, &l, &e), 0);
	if (apply_all(&l, &e) < 0)
		fail_msg("%s", e.what);
	buf_done(&back);
	back = (struct buf)BUF_INIT(1 << 20);
	state_of(&back);
	assert_string_equal(buf_str(&now), buf_str(&back));
	layer_done(&l);
	buf_done(&was);
	buf_done(&now);
	buf_done(&back);
}

/* ---- killed at each step ---- */

struct dying {
	struct layer *l;
	unsigned left;
	const char *script; /* instead of dying */
	bool ran;
};

static void die_at(void *arg)
{
	struct dying *d = arg;

	if (d->left--)
		return;
	if (!d->script)
		(void)kill(getpid(), SIGKILL);
	else
		shell(d->script);
	d->ran = true;
}

static int apply_with(struct dying *d, struct err *e)
{
	const struct apply_asked all = { 0 };
	CLEANUP(apply) struct apply *a = NULL;
	size_t done;

	if (apply_begin(d->l, &a, e) < 0)
		return -e->code;
	must(apply_judge(a, &all, e) == 0);
	apply_on_step(a, die_at, d);
	return apply_commit(a, &done, e);
}

static void apply_and_die(void *arg)
{
	struct err e = { 0 };

	must(apply_with(arg, &e) == 0);
}

static void killed_at_any_step_it_is_undone(void **state UNUSED)
{
	struct buf was = BUF_INIT(1 << 20);
	unsigned step = 0;
	struct layer l;

	shell(WORKSPACE);
	state_of(&was);
	layer_of(&l, CHANGES);
	for (bool whole = false; !whole; step++) {
		struct buf now = BUF_INIT(1 << 20);
		struct dying d = { &l, step, NULL, false };
		struct err e = { 0 };

		must(step < 200);
		whole = in_child(apply_and_die, &d, 30);
		/* While somebody has the layer, the workspace is right, and the layer waits. */
		if (step % 3 == 0 && recover(&e) < 0)
			assert_int_equal(e.code, EBUSY);
		layer_done(&l);
		assert_ok(recover(&e), &e);
		assert_ok(layer_open("0000", NULL, LAYER_ALONE, &l, &e), &e);
		state_of(&now);
		if (whole)
			assert_string_not_equal(buf_str(&was), buf_str(&now));
		else
			assert_string_equal(buf_str(&was), buf_str(&now));
		buf_done(&now);
	}
	assert_true(step > 20);
	layer_done(&l);
	buf_done(&was);
}

/* ---- somebody else at each step ---- */

/* Whatever is done to the workspace at whatever step: outside of it nothing is made, nothing of the
 * host's is lost, and either all of the layer is there or nothing. */
static void swapped_at_each_step(const char *script, const char *holds)
{
	for (unsigned step = 0, ran = 1; ran; step++) {
		struct dying d = { .left = step, .script = script };
		struct err e = { 0 };
		struct layer l;
		int r;

		shell("rm -rf w/* outside cache && mkdir outside && echo host >outside/passwd");
		shell(WORKSPACE);
		layer_of(&l, CHANGES);
		d.l = &l;
		r = apply_with(&d, &e);
		ran = d.ran;
		layer_done(&l);
		(void)recover(&e);
		shell("test \"$(ls -A outside)\" = passwd && grep -qx host outside/passwd");
		if (ran)
			shell(holds);
		if (ran && r < 0)
			shell("cd w && ! grep -qs more a && ! test -e d/new && ! test -e n/m");
		must(step < 100);
	}
}

static void links_on_the_way_lead_nowhere(void **state UNUSED)
{
	swapped_at_each_step("cd w && mv d d.was && ln -s ../outside d",
			     "test -L w/d && test -f w/d.was/d");
}

static void a_file_that_becomes_a_link_is_not_followed(void **state UNUSED)
{
	swapped_at_each_step("cd w && ln -sfn ../outside/passwd a", "test -L w/a -o -f w/a");
}

static void what_an_editor_saves_meanwhile_is_not_lost(void **state UNUSED)
{
	swapped_at_each_step("cd w && echo edited >a.tmp && mv a.tmp a && echo edited2 >d/d",
			     "grep -qx edited w/a && grep -qx edited2 w/d/d");
	swapped_at_each_step("cd w && mkdir -p gone && echo edited >>gone/g",
			     "test \"$(tail -n1 w/gone/g)\" = edited");
}

static void what_appears_meanwhile_stays(void **state UNUSED)
{
	swapped_at_each_step("cd w && mkdir -p n && echo mine >>n/mine", "grep -qx mine w/n/mine");
}

/* The control: without a comparison the same swap loses what was saved. */
static void a_rename_without_a_look_would_lose_it(void **state UNUSED)
{
	shell("cd w && echo a >a && echo staged >../staged && echo edited >a.tmp && mv a.tmp a &&"
	      "mv ../staged a && ! grep -q edited a");
}

/* ---- rules ---- */

static const char *const protected_script =
	"git init -q . 2>/dev/null || mkdir -p .git; mkdir -p .vscode .git/hooks && echo '{}' "
	">.vscode/tasks.json && echo x >.envrc && echo '* filter=x' >.gitattributes && echo ok >ok "
	"&&"
	"mkdir -p sub && echo 'gitdir: ../e' >sub/.git && mkdir -p bare/objects bare/refs "
	"bare/hooks &&"
	"echo 'ref: refs/heads/x' >bare/HEAD && echo '[core]' >bare/config && echo o "
	">bare/objects/o &&"
	"mkdir -p .VSCODE && echo y >.VSCODE/x && mkdir -p a/node_modules/p && echo '{}' "
	">a/node_modules/p/package.json";

static void what_the_host_obeys_comes_by_name_only(void **state UNUSED)
{
	const char *const name[] = { ".vscode/tasks.json" }, *const all[] = { "." };
	struct err e = { 0 };
	struct layer l;
	size_t done;

	layer_of(&l, protected_script);
	assert_ok(apply_all(&l, &e), &e);
	shell("cd w && test -f ok && ! test -e .vscode && ! test -e .envrc && ! test -e .git &&"
	      "! test -e sub/.git && ! test -e bare && ! test -e .gitattributes && ! test -e "
	      ".VSCODE &&"
	      "test -f a/node_modules/p/package.json");
	assert_int_equal(apply_these(&l, all, 1, false, &done, &e), -ENOENT); /* no such change */
	assert_ok(apply_these(&l, name, 1, false, &done, &e), &e);
	shell("cd w && test -f .vscode/tasks.json && ! test -e .envrc");
	layer_done(&l);
}

static void of_a_repository_come_its_objects_not_its_settings(void **state UNUSED)
{
	const char *const hook[] = { ".git/hooks/post-checkout" };
	struct err e = { 0 };
	struct layer l;
	size_t done;

	shell("cd w && git init -q . && git config user.email a@b && git config user.name a &&"
	      "echo a >a && git add a && git commit -qm one");
	layer_of(&l,
		 "git config core.fsmonitor ./evil && echo '#!/bin/sh' >.git/hooks/post-checkout &&"
		 "mkdir -p .git/info && echo /etc >.git/objects/info/alternates &&"
		 "echo '* filter=evil' >.git/info/attributes && git -c core.fsmonitor= -c "
		 "user.email=a@b -c user.name=a commit -q --no-verify --allow-empty -m two ||"
		 "true; rm -f .git/objects/info/alternates; git -c core.fsmonitor= commit -q "
		 "--allow-empty -m two; echo /etc >.git/objects/info/alternates");
	assert_ok(apply_all(&l, &e), &e);
	shell("cd w && test $(git log --oneline | wc -l) -ge 2 && git fsck >/dev/null 2>&1 &&"
	      "! git config core.fsmonitor && ! test -e .git/hooks/post-checkout &&"
	      "! test -e .git/info/attributes && ! test -e .git/objects/info/alternates &&"
	      "test -z \"$(git status --porcelain)\"");
	assert_ok(apply_these(&l, hook, 1, false, &done, &e), &e);
	shell("test -f w/.git/hooks/post-checkout && cd w && ! git config core.fsmonitor");
	layer_done(&l);
}

static void a_conflict_refuses_all_of_it(void **state UNUSED)
{
	const char *const other[] = { "d" }, *const that[] = { "a" };
	struct err e = { 0 };
	struct layer l;
	size_t done;

	shell(WORKSPACE);
	layer_begin(&l, 1);
	layer_run(&l, CHANGES);
	shell("echo host >>w/a");
	layer_close(&l);
	assert_int_equal(apply_all(&l, &e), -EEXIST);
	shell("cd w && test -e c && test ! -e n");
	assert_ok(apply_these(&l, other, 1, false, &done, &e), &e);
	shell("cd w && test -e d/new && test -e c");
	assert_int_equal(apply_these(&l, that, 1, false, &done, &e), -EEXIST);
	assert_ok(apply_these(&l, that, 1, true, &done, &e), &e);
	shell("grep -q more w/a && ! grep -q host w/a");
	layer_done(&l);
	assert_ok(undo(false, &e), &e);
	shell("grep -q host w/a");
}

static void no_set_id_bit_and_no_device_comes(void **state UNUSED)
{
	struct err e = { 0 };
	struct layer l;

	shell("cd w && echo a >a && echo s >s && chmod 4755 s");
	layer_of(&l,
		 "echo b >b && chmod 6755 b && mkdir g && chmod 2775 g && chmod 4711 a &&"
		 "mkfifo p && echo x >g/x && chmod 4755 g/x && python3 -c \"import os;"
		 "os.setxattr('b','user.mine',b'1')\" && truncate -s 8M hole && echo z >>hole &&"
		 "touch -d 2001-02-03 b");
	assert_ok(apply_all(&l, &e), &e);
	shell("cd w && test $(stat -c %a b) = 755 && test $(stat -c %a g) = 775 &&"
	      "test $(stat -c %a g/x) = 755 && test $(stat -c %a a) = 711 && test ! -e p &&"
	      "test $(stat -c %a s) = 4755 && test $(stat -c %b hole) -lt 1000 &&"
	      "test \"$(date -r b +%Y)\" = 2001 &&"
	      "python3 -c \"import os; assert os.getxattr('b','user.mine')==b'1'\"");
	layer_done(&l);
}

static void an_undo_takes_nothing_of_the_users(void **state UNUSED)
{
	struct err e = { 0 };
	struct layer l;

	shell(WORKSPACE);
	layer_of(&l, CHANGES);
	assert_ok(apply_all(&l, &e), &e);
	layer_done(&l);
	shell("sleep 0.02; echo mine >>w/a");
	assert_int_equal(undo(false, &e), -EBUSY);
	shell("grep -q mine w/a");
	assert_int_equal(undo(true, &e), 0);
	shell("cd w && ! grep -q mine a && test -e c && grep -q mine "
	      "../cache/brig/layers/*/upper/a || "
	      "grep -q mine cache/brig/layers/*/upper/a || true");
	assert_int_equal(undo(false, &e), -ENOENT);
}

static void a_full_disk_leaves_it_as_it_was(void **state UNUSED)
{
	struct buf was = BUF_INIT(1 << 20), now = BUF_INIT(1 << 20);
	struct err e = { 0 };
	struct layer l;

	shell(WORKSPACE);
	state_of(&was);
	layer_of(&l, CHANGES " && head -c 300000 /dev/zero >big && ln big big2");
	(void)signal(SIGXFSZ, SIG_IGN);
	must(system("true") == 0);
	{
		struct rlimit {
			unsigned long cur, max;
		} small = { 100000, ~0UL };

		must(syscall(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, &small, NULL) == 0);
		assert_true(apply_all(&l, &e) < 0);
		small.cur = ~0UL;
		must(syscall(SYS_prlimit64, 0, 1, &small, NULL) == 0);
	}
	state_of(&now);
	assert_string_equal(buf_str(&was), buf_str(&now));
	layer_done(&l);
	buf_done(&was);
	buf_done(&now);
}

#define LAYERED(test) cmocka_unit_test_setup_teardown(test, layers_enter, layers_leave)

static const struct CMUnitTest tests[] = {
	LAYERED(all_of_it_comes_and_goes_back),
	LAYERED(killed_at_any_step_it_is_undone),
	LAYERED(links_on_the_way_lead_nowhere),
	LAYERED(a_file_that_becomes_a_link_is_not_followed),
	LAYERED(what_an_editor_saves_meanwhile_is_not_lost),
	LAYERED(what_appears_meanwhile_stays),
	LAYERED(a_rename_without_a_look_would_lose_it),
	LAYERED(what_the_host_obeys_comes_by_name_only),
	LAYERED(of_a_repository_come_its_objects_not_its_settings),
	LAYERED(a_conflict_refuses_all_of_it),
	LAYERED(no_set_id_bit_and_no_device_comes),
	LAYERED(an_undo_takes_nothing_of_the_users),
	LAYERED(a_full_disk_leaves_it_as_it_was),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

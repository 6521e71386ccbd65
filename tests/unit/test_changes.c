/* SPDX-License-Identifier: Apache-2.0 */
/* unit/test_changes.c - what is seen in a layer that a real overlay has written: kinds, conflicts,
 * text, and what nobody inside can forge. */
#include "layers.h"

#include "workspace/change.h"
#include "workspace/layer_look.h"

static void look(const struct layer *l, struct change_list *ret)
{
	CLEANUP(fd) int workspace = -1;
	struct err e = { 0 };
	struct look_want w = { .upper = l->upper, .about = &l->about, .count = true };

	if (layer_workspace(l, &workspace, &e) < 0)
		fail_msg("%s", e.what);
	w.workspace = workspace;
	if (look_list(&w, ret, &e) < 0)
		fail_msg("%s", e.what);
}

/* One line a change: kind, path, and ! for a conflict. */
static void changes_are(const struct layer *l, const char *want)
{
	CLEANUP(change_list) struct change_list list = { 0 };
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);

	look(l, &list);
	for (size_t i = 0; i < list.n; i++)
		buf_printf(&b, "%s %s%s\n", change_word(list.v[i].kind), list.v[i].path,
			   list.v[i].conflict != CONFLICT_NONE ? " !" : "");
	assert_string_equal(buf_str(&b), want);
}

static void a_layer_says_what_changed(void **state UNUSED)
{
	struct layer l;

	shell("cd w && mkdir -p old/sub gone keep && echo a >a && echo b >b && echo c >c &&"
	      "echo x >old/x && echo y >old/sub/y && echo z >gone/z && ln -s a l && echo k >keep/k "
	      "&&"
	      "echo t >t && echo same >same && chmod 4755 a");
	layer_of(&l,
		 "echo more >>a && chmod 600 b && rm c && rm -r gone && rm -r old && mkdir old &&"
		 "echo x >old/x && echo new >old/new && ln -sfn b l && rm t && mkdir t &&"
		 "echo in >t/in && mkdir -p n/m && echo 1 >n/m/1 && mkfifo pipe && touch empty &&"
		 "echo same >same && chmod 700 keep && ln -s /etc/passwd out");
	changes_are(&l, "changed a\nmode b\ndeleted c\nadded empty\ndeleted gone\nmode keep\n"
			"changed l\nfolder n\nfolder n/m\nadded n/m/1\nadded old/new\n"
			"deleted old/sub\nadded out\nother pipe\ntype t\nadded t/in\n");
	layer_done(&l);
}

static void a_rename_is_no_conflict(void **state UNUSED)
{
	struct layer l;

	shell("cd w && mkdir d e && echo a >a && echo b >d/b && echo c >c && echo f >e/f && echo g "
	      ">g");
	layer_of(&l, "mv a new && mv d/b c && ln g h && mv e/f f && rm -r e && sed -i s/g/G/ g");
	changes_are(&l,
		    "deleted a\nchanged c\ndeleted d/b\ndeleted e\nadded f\nchanged g\nadded h\n"
		    "added new\n");
	layer_done(&l);
}

static void what_the_host_changed_is_a_conflict(void **state UNUSED)
{
	struct layer l;

	shell("cd w && mkdir d moved && echo a >a && echo b >b && echo c >c && echo d >d/d &&"
	      "echo e >e && echo f >f && echo m >moved/m && echo old >../outside/m");
	layer_begin(&l, 1);
	layer_run(&l, "for f in a b c e new moved/m; do echo run >$f; done; rm -r d; rm f");
	shell("cd w && echo host >a && rm b && echo host >new && echo host >d/d2 && echo run >e &&"
	      "touch f && mv moved ../outside/was && mkdir moved && mv ../outside/m moved/m");
	layer_close(&l);
	changes_are(&l, "changed a !\nadded b !\nchanged c\ndeleted d !\ndeleted f !\n"
			"changed moved/m !\nchanged new !\n");
	layer_done(&l);
}

/* Within one tick of the file system's clock: the mark and the edit may have the same time. */
static void no_edit_is_too_quick_to_be_seen(void **state UNUSED)
{
	shell("cd w && echo a >a && echo b >b");
	for (unsigned i = 0; i < 60; i++) {
		CLEANUP(change_list) struct change_list list = { 0 };
		char text[32];
		struct layer l;

		(void)snprintf(text, sizeof(text), "%u", i);
		layer_begin(&l, i + 1);
		write_text("w/a", text); /* at once */
		write_text("outside/upper", "run");
		must(renameat(AT_FDCWD, "outside/upper", l.upper, "a") == 0);
		layer_close(&l);
		look(&l, &list);
		assert_int_equal(list.n, 1);
		assert_int_equal(list.v[0].conflict, CONFLICT_CHANGED);
		layer_done(&l);
	}
}

static void nobody_inside_can_forge_a_mark(void **state UNUSED)
{
	struct layer l;

	shell("cd w && mkdir d && echo a >a && echo d >d/d");
	/* Each may be refused; none may be taken for a mark. */
	layer_of(&l, "mknod c c 0 0 2>/dev/null; mknod a2 c 0 0 2>/dev/null; mkdir n; echo f >n/f;"
		     "python3 -c '\nimport os\n"
		     "for p,k,v in ((\"d\",\"opaque\",b\"y\"),(\"a\",\"origin\",b\"\"),"
		     "(\"n/f\",\"origin\",b\"\"),(\"a\",\"redirect\",b\"/etc\"),"
		     "(\"a\",\"metacopy\",b\"\"),(\"a\",\"whiteout\",b\"y\")):\n"
		     " try: os.setxattr(p, \"user.overlay.\"+k, v)\n"
		     " except OSError: pass'; true");
	changes_are(&l, "folder n\nadded n/f\n");
	layer_done(&l);
}

static int gather(void *arg, const char *data, size_t n)
{
	buf_add(arg, data, n);
	return 0;
}

static void its_text_is_a_patch(void **state UNUSED)
{
	CLEANUP(buf) struct buf b = BUF_INIT(1 << 20);
	CLEANUP(fd) int fd = -1;
	struct err e = { 0 };
	struct layer l;
	struct look_want w = { .about = &l.about };
	int workspace;

	shell("cd w && seq 100 >a && seq 5 >'name with space' && printf no-newline >n && seq 3 "
	      ">gone &&"
	      "mkdir s && seq 9 >s/f && cp -a . ../outside/copy");
	layer_of(&l, "sed -i 's/^5.$/x&/' a && echo >>'name with space' && echo >>n && rm gone &&"
		     "echo new >s/new && seq 4 12 >s/f && printf '\\033]0;title\\007' >evil");
	assert_int_equal(layer_workspace(&l, &workspace, &e), 0);
	w.upper = l.upper;
	w.workspace = workspace;
	assert_int_equal(look_text(&w, gather, &b, &e), 0);
	fd = open("p", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must(fd_write_all(fd, buf_str(&b), b.len) == 0);
	shell("cd outside/copy && patch -s -p1 <../../p");
	shell("cmp outside/copy/a cache/brig/layers/*/upper/a && test ! -e outside/copy/gone &&"
	      "cmp outside/copy/s/f cache/brig/layers/*/upper/s/f &&"
	      "cmp outside/copy/n cache/brig/layers/*/upper/n &&"
	      "cmp 'outside/copy/name with space' cache/brig/layers/*/upper/'name with space'");
	(void)close(workspace);
	layer_done(&l);
}

static void what_is_closed_to_its_owner_is_seen_or_told(void **state UNUSED)
{
	struct layer l;

	shell("cd w && echo a >a");
	layer_of(&l, "mkdir -p shut/in && echo x >shut/in/x && chmod 0 shut/in/x shut/in shut &&"
		     "chmod 0 a");
	if (geteuid() == 0)
		changes_are(&l, "mode a\nfolder shut\nfolder shut/in\nadded shut/in/x\n");
	else {
		CLEANUP(change_list) struct change_list list = { 0 };

		look(&l, &list); /* where namespaces are closed, as closed */
		assert_true(list.n >= 2);
	}
	layer_done(&l);
}

static void a_list_is_read_strictly(void **state UNUSED)
{
	static const char *const bad[] = { "", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b" };
	struct change c = { .path = "a", .link = "", .kind = CHANGE_ADDED, .now.mode = S_IFREG };
	struct change_list l = { .v = &c, .n = 1 }, got;

	for (size_t i = 0; i <= ARRAY_LEN(bad); i++) {
		CLEANUP(buf) struct buf b = BUF_INIT(4096);

		c.path = i < ARRAY_LEN(bad) ? bad[i] : "a/b";
		change_list_write(&l, &b);
		if (i < ARRAY_LEN(bad)) {
			assert_int_equal(change_list_read(buf_str(&b), b.len, &got), -EBADMSG);
			continue;
		}
		assert_int_equal(change_list_read(buf_str(&b), b.len, &got), 0);
		change_list_done(&got);
		for (size_t n = 0; n < b.len; n++)
			assert_int_equal(change_list_read(buf_str(&b), n, &got), -EBADMSG);
	}
}

static void links_that_lead_out_are_told(void **state UNUSED)
{
	assert_true(change_leads_out("a", "/etc"));
	assert_true(change_leads_out("a", "../x"));
	assert_true(change_leads_out("d/a", "../../x"));
	assert_true(change_leads_out("d/a", "b/../../../x"));
	assert_false(change_leads_out("d/a", "../x"));
	assert_false(change_leads_out("a", "b/../c"));
	assert_false(change_leads_out("a", "..x"));
}

#define LAYERED(test) cmocka_unit_test_setup_teardown(test, layers_enter, layers_leave)

static const struct CMUnitTest tests[] = {
	LAYERED(a_layer_says_what_changed),
	LAYERED(a_rename_is_no_conflict),
	LAYERED(what_the_host_changed_is_a_conflict),
	LAYERED(no_edit_is_too_quick_to_be_seen),
	LAYERED(nobody_inside_can_forge_a_mark),
	LAYERED(its_text_is_a_patch),
	LAYERED(what_is_closed_to_its_owner_is_seen_or_told),
	cmocka_unit_test(a_list_is_read_strictly),
	cmocka_unit_test(links_that_lead_out_are_told),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}

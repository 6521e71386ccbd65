/* SPDX-License-Identifier: Apache-2.0 */
#include "model/request/code_hook.h"

#include "base/bytes/json.h"
#include "base/text/buf.h"

#define PROGRAM_MAX ((size_t)96 << 10) /* the kernel takes no argument beyond 128 KiB */

/* What an event is about, without a word of the settings; they are the dictionary S. A module, a
 * line of code or an import that the standard library or an installed package asks for is theirs:
 * only what the program itself asks for counts. Bytecode is not written, which would be a write of
 * the interpreter's. The first frame of a traceback is this program's, and is left out. */
static const char program[] =
	"def brig(S):\n"
	" import ipaddress,os,sys\n"
	" frame,write,real,sep=sys._getframe,os.write,os.path.realpath,os.sep\n"
	" library=tuple({real(p)+'/lib/' for p in (sys.prefix,sys.base_prefix,sys.exec_prefix)})\n"
	" writable=[real(p) for p in S['write']]\n"
	" WRITES=os.O_WRONLY|os.O_RDWR|os.O_CREAT|os.O_TRUNC|os.O_APPEND\n"
	" class SandboxViolation(RuntimeError):\n"
	"  pass\n"
	" SandboxViolation.__module__='builtins'\n"
	" SandboxViolation.__qualname__='SandboxViolation'\n"
	" def fail(event,what):\n"
	"  if S['raise']:\n"
	"   raise SandboxViolation('[%s] %s'%(event,what))\n"
	"  write(2,('brig: audit hook: [%s] %s\\n'%(event,what)).encode('utf-8','replace'))\n"
	" def own():\n"
	"  f=frame(2)\n"
	"  while f is not None and f.f_code.co_filename.startswith('<frozen importlib'):\n"
	"   f=f.f_back\n"
	"  n=f.f_code.co_filename if f is not None else ''\n"
	"  return not n.startswith(('<frozen ',)+library)\n"
	" def place(event,p,itself=False):\n"
	"  if isinstance(p,int):\n"
	"   return\n"
	"  try:\n"
	"   at=os.fsdecode(p)\n"
	"   up,_,last=at.rstrip(sep).rpartition(sep)\n"
	"   at=real(up or (sep if at.startswith(sep) else '.'))+sep+last if itself else real(at)\n"
	"  except (TypeError,ValueError):\n"
	"   return fail(event,'write to %r blocked'%(p,))\n"
	"  for w in writable:\n"
	"   if at==w or at.startswith(w.rstrip(sep)+sep):\n"
	"    return\n"
	"  fail(event,'write to %r blocked (not in allowed_write_paths)'%at)\n"
	" def near(event,at):\n"
	"  if not isinstance(at,tuple) or len(at)<2 or not isinstance(at[0],str):\n"
	"   return\n"
	"  try:\n"
	"   ip=ipaddress.ip_address(at[0].split('%')[0])\n"
	"  except ValueError:\n"
	"   if S['private'] and at[0].lower().rstrip('.')=='localhost':\n"
	"    fail(event,'connection to private address %r blocked'%at[0])\n"
	"   return name(event,at[0])\n"
	"  ip=getattr(ip,'ipv4_mapped',None) or ip\n"
	"  if S['private'] and (ip.is_private or ip.is_loopback or ip.is_link_local):\n"
	"   fail(event,'connection to private address %r blocked'%at[0])\n"
	" def name(event,host):\n"
	"  if isinstance(host,bytes):\n"
	"   host=host.decode('ascii','replace')\n"
	"  if S['hosts'] and isinstance(host,str) and host not in S['hosts']:\n"
	"   fail(event,'name %r blocked (not in allowed_network_hosts)'%host)\n"
	" STARTS={'subprocess.Popen','os.system','os.exec','os.fork','os.forkpty','os.posix_spawn',"
	"'os.spawn','pty.spawn'}\n"
	" PLACES={'os.remove':1,'os.rmdir':1,'os.mkdir':1,'os.truncate':1,'os.chmod':1,'os.chown':"
	"1,"
	"'os.rename':2,'os.link':2,'os.symlink':2}\n"
	" def hook(event,args):\n"
	"  if event=='open':\n"
	"   p,mode,flags=args\n"
	"   if any(c in mode for c in 'wax+') if isinstance(mode,str) else flags&WRITES:\n"
	"    place(event,p)\n"
	"  elif event in PLACES:\n"
	"   for p in args[:PLACES[event]] if event!='os.symlink' else args[1:2]:\n"
	"    place(event,p,True)\n"
	"  elif event in STARTS:\n"
	"   if not S['subprocess']:\n"
	"    fail(event,'starting a program blocked')\n"
	"  elif event in ('socket.connect','socket.sendto','socket.sendmsg'):\n"
	"   near(event,args[1])\n"
	"  elif event in ('socket.getaddrinfo','socket.gethostbyname'):\n"
	"   name(event,args[0])\n"
	"  elif event=='import':\n"
	"   if args[0].split('.')[0] in S['blocked'] or args[0] in S['blocked']:\n"
	"    if own():\n"
	"     fail(event,'import of %r blocked'%args[0])\n"
	"  elif event=='compile' and not S['eval']:\n"
	"   if not frame(1).f_code.co_filename.startswith('<frozen ') and own():\n"
	"    fail(event,'compile of a text blocked')\n"
	"  elif event=='exec' and not S['eval']:\n"
	"   n=getattr(args[0],'co_filename','')\n"
	"   if isinstance(n,str) and n.startswith('<') and not n.startswith('<frozen ') and "
	"own():\n"
	"    fail(event,'exec of a text blocked')\n"
	"  elif event=='ctypes.dlopen':\n"
	"   fail(event,'loading a native library blocked')\n"
	" return hook\n"
	"def main(brig,S):\n"
	" import __main__,sys\n"
	" show=sys.excepthook\n"
	" def tell(t,v,tb):\n"
	"  tb=tb and tb.tb_next and tb.tb_next.tb_next\n"
	"  show(t,v.with_traceback(tb),tb)\n"
	" sys.excepthook=tell\n"
	" del sys.argv[0]\n"
	" path=sys.argv[0]\n"
	" with open(path,'rb') as f:\n"
	"  code=compile(f.read(),path,'exec')\n"
	" sys.path[0]=path.rpartition('/')[0] or '/'\n"
	" sys.dont_write_bytecode=True\n"
	" g=__main__.__dict__\n"
	" for n in 'brig','main':\n"
	"  del g[n]\n"
	" g['__file__']=path\n"
	" sys.addaudithook(brig(S))\n"
	" exec(code,g)\n";

static void put_settings(struct json *j, const struct code_hooks *h)
{
	const struct {
		const char *key;
		const struct strlist *list;
	} lists[] = { { "write", &h->write }, { "hosts", &h->hosts }, { "blocked", &h->blocked } };

	json_object(j);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		json_karray(j, lists[i].key);
		for (size_t k = 0; k < lists[i].list->n; k++)
			json_str(j, lists[i].list->v[k]);
		json_array_end(j);
	}
	json_ku64(j, "private", !h->near);
	json_ku64(j, "subprocess", h->programs);
	json_ku64(j, "eval", h->evals);
	json_ku64(j, "raise", !h->log);
	json_object_end(j);
}

int code_hook_program(struct arena *a, const struct code_hooks *h, const char **ret, struct err *e)
{
	CLEANUP(buf) struct buf b = BUF_INIT(PROGRAM_MAX);
	struct json j;

	buf_puts(&b, program);
	/* A JSON string is a string of Python's too. */
	buf_puts(&b, "main(brig,");
	json_init(&j, &b, false);
	put_settings(&j, h);
	buf_puts(&b, ")\n");
	if (b.failed)
		return err_refuse(e, ERR_CONFIG, E2BIG, "shorten the lists of security.tools",
				  "%.160s: the settings of the audit hook are too long", h->where);
	*ret = arena_strdup(a, buf_str(&b));
	return *ret ? 0 : err_nomem(e);
}

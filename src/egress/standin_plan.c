#include <string.h>
#include "egress/plan.h"
int egress_plan_new(const struct spec *s, char *const *envp, struct egress_plan **ret, struct err *e)
{ struct egress_plan *p=calloc(1,sizeof(*p));(void)envp;(void)e; p->arena=arena_new(1<<20); p->egress=s->egress; *ret=p; return 0;}
struct egress_plan *egress_plan_free(struct egress_plan *p){ if(p){(void)arena_free(p->arena);free(p);}return NULL;}
int egress_plan_write(const struct egress_plan *p, struct buf *out, struct err *e)
{ (void)e; const struct egress_spec*g=&p->egress;
 for(size_t i=0;i<g->allow.n;i++)buf_printf(out,"A%s\n",g->allow.v[i]);
 for(size_t i=0;i<g->deny.n;i++)buf_printf(out,"D%s\n",g->deny.v[i]);
 for(size_t i=0;i<g->roots.n;i++)buf_printf(out,"R%s\n",g->roots.v[i]);
 for(size_t i=0;i<g->passthrough.n;i++)buf_printf(out,"P%s\n",g->passthrough.v[i]);
 for(size_t i=0;i<g->resolve.n;i++)buf_printf(out,"N%s=%s\n",g->resolve.v[i].name,g->resolve.v[i].value);
 buf_printf(out,"H%d\nI%d\nS%d\n",g->https_only,g->inspect,(int)g->host_service);
 buf_printf(out,"1%llu\n2%llu\n3%llu\n4%llu\n5%llu\n6%llu\n",(unsigned long long)g->rate.domain,(unsigned long long)g->rate.total,(unsigned long long)g->rate.connections,(unsigned long long)g->rate.names,(unsigned long long)g->rate.bytes_out,(unsigned long long)g->rate.bytes_in);
 return 0;}
static void push(struct arena*a,struct strlist*l,const char*t){const char**s=ARENA_PUSH(a,l->v,l->n);*s=arena_strdup(a,t);}
int egress_plan_read(const char *text, size_t n, struct egress_plan **ret, struct err *e)
{ (void)e; struct egress_plan *p=calloc(1,sizeof(*p)); p->arena=arena_new(1<<20); char*t=arena_strndup(p->arena,text,n);
 struct egress_spec*g=&p->egress;
 for(char*l=strtok(t,"\n");l;l=strtok(NULL,"\n")) switch(*l){
 case 'A':push(p->arena,&g->allow,l+1);break; case 'D':push(p->arena,&g->deny,l+1);break; case 'R':push(p->arena,&g->roots,l+1);break; case 'P':push(p->arena,&g->passthrough,l+1);break;
 case 'N':{char*q=strchr(l,'=');*q=0;struct envvar*v=ARENA_PUSH(p->arena,g->resolve.v,g->resolve.n);v->name=arena_strdup(p->arena,l+1);v->value=arena_strdup(p->arena,q+1);break;}
 case 'H':g->https_only=atoi(l+1);break;case 'I':g->inspect=atoi(l+1);break;case 'S':g->host_service=(uint64_t)atoi(l+1);break;
 case '1':g->rate.domain=strtoull(l+1,0,10);break;case '2':g->rate.total=strtoull(l+1,0,10);break;case '3':g->rate.connections=strtoull(l+1,0,10);break;case '4':g->rate.names=strtoull(l+1,0,10);break;case '5':g->rate.bytes_out=strtoull(l+1,0,10);break;case '6':g->rate.bytes_in=strtoull(l+1,0,10);break;}
 p->leaks.scan=true; *ret=p;return 0;}

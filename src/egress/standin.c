#include "egress/scan.h"
#include "egress/scrub.h"
#include "egress/cred.h"
#include "egress/coding.h"
int creds_new(const struct credentiallist *s, const struct secret *x, struct creds **ret, struct err *e){(void)s;(void)x;(void)e;*ret=NULL;return 0;}
struct creds *creds_free(struct creds *c){return c;}
bool cred_apply(const struct creds *c, const struct cred_target *to, struct egress_head *head, uint64_t *used, struct egress_verdict *v){(void)c;(void)to;(void)head;(void)used;(void)v;return true;}

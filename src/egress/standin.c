#include "egress/scan.h"
#include "egress/scrub.h"
#include "egress/cred.h"
#include "egress/coding.h"
int scan_cache_open(const char *c,const char*h){(void)c;(void)h;return -1;}
int scanner_new(const struct scan_options *o, struct scanner **ret, struct err *e){(void)o;(void)ret;(void)e;*ret=NULL;return 0;}
struct scanner *scanner_free(struct scanner *s){return s;}
bool scan_host(struct scanner *s, const struct host *h, struct egress_verdict *v){(void)s;(void)h;(void)v;return true;}
bool scan_head(struct scanner *s, enum scan_direction d, struct egress_head *head, struct egress_verdict *v){(void)s;(void)d;(void)head;(void)v;return true;}
int scan_open(struct scanner *s, enum scan_direction d, struct scan **ret, struct err *e){(void)s;(void)d;(void)ret;(void)e;return 0;}
struct scan *scan_close(struct scan *b){return b;}
bool scan_feed(struct scan *b, char *p, size_t n, bool last, struct scan_release *ret, struct egress_verdict *v){(void)b;(void)p;(void)n;(void)last;(void)ret;(void)v;return true;}
int scrubber_new(const struct secret *s, size_t n, struct scrubber **ret, struct err *e){(void)s;(void)n;(void)e;*ret=NULL;return 0;}
struct scrubber *scrubber_free(struct scrubber *s){return s;}
bool scrub_needed(const struct scrubber *s){(void)s;return false;}
int scrub_text(struct scrubber *s, const char *p, size_t n, struct buf *out, unsigned *hits, struct err *e){(void)s;(void)p;(void)n;(void)out;(void)hits;(void)e;return -1;}
int scrub_open(struct scrubber *s, const struct codings *c, struct scrub **ret, struct err *e){(void)s;(void)c;(void)ret;(void)e;return -1;}
struct scrub *scrub_close(struct scrub *b){return b;}
int scrub_feed(struct scrub *b, const char *p, size_t n, bool last, struct buf *out, struct err *e){(void)b;(void)p;(void)n;(void)last;(void)out;(void)e;return -1;}
int creds_new(const struct credentiallist *s, const struct secret *x, struct creds **ret, struct err *e){(void)s;(void)x;(void)e;*ret=NULL;return 0;}
struct creds *creds_free(struct creds *c){return c;}
bool cred_apply(const struct creds *c, const struct cred_target *to, struct egress_head *head, uint64_t *used, struct egress_verdict *v){(void)c;(void)to;(void)head;(void)used;(void)v;return true;}
int coding_parse(struct egress_text v, struct codings *ret){(void)v;ret->n=0;return 0;}

/* SPDX-License-Identifier: Apache-2.0 */
#include "apps/mcp/rpc.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/str.h"

bool rpc_id(const struct jread *v, char out[RPC_ID_MAX + 8])
{
	CLEANUP(buf) struct buf b = BUF_INIT(RPC_ID_MAX + 7);
	const char *text = jread_text(v);

	out[0] = '\0';
	if (jread_kind(v) != JREAD_INT && !text)
		return false;
	if (text)
		json_quote(&b, text, strlen(text));
	else
		jread_write(v, &b);
	if (b.failed)
		return false;
	memcpy(out, buf_str(&b), b.len + 1);
	return true;
}

/* A message with a NUL or half a character in some text is refused; who has sent it still waits for
 * an answer to its id. Read once more without them, for the id alone. */
static void salvage_id(const char *p, size_t n, struct rpc_message *ret)
{
	CLEANUP(buf) struct buf b = BUF_INIT(RPC_MESSAGE_MAX + 2);
	struct jread *root = NULL;
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++) {
		const char *at = p + i;

		if (at[0] != '\\' || n - i < 6) {
			buf_putc(&b, at[0]);
			continue;
		}
		if (at[1] == 'u' && (memcmp(at + 2, "0000", 4) == 0 ||
				     ((at[2] | 0x20) == 'd' && strchr("89abcdefABCDEF", at[3])))) {
			buf_puts(&b, "\\ufffd");
			i += 5;
			continue;
		}
		buf_add(&b, at, 2);
		i++;
	}
	if (b.failed || jread_parse(buf_str(&b), b.len, &root, &e) < 0)
		return;
	if (rpc_id(jread_get(root, "id"), ret->id) && strstr(ret->id, "\xef\xbf\xbd"))
		ret->id[0] = '\0';
	(void)jread_free(root);
}

static int rpc_refuse(const char **why, int code, const char *text)
{
	*why = text;
	return code;
}

int rpc_parse(const char *p, size_t n, struct rpc_message *ret, const char **why)
{
	const struct jread *id, *params;
	struct err e = { 0 };

	*ret = (struct rpc_message){ 0 };
	if (n > RPC_MESSAGE_MAX)
		return rpc_refuse(why, RPC_REQUEST, "the message is too long");
	if (!jread_within(p, n, RPC_DEPTH, RPC_VALUES))
		return rpc_refuse(why, RPC_REQUEST,
				  "the message is nested too deeply, or has too many values");
	if (jread_parse(p, n, &ret->root, &e) < 0) {
		salvage_id(p, n, ret);
		return ret->id[0] ? rpc_refuse(why, RPC_PARAMS,
					       "a text in it has a NUL or half of a character")
				  : rpc_refuse(why, RPC_PARSE, "the message is not JSON");
	}
	if (jread_kind(ret->root) != JREAD_OBJECT)
		return rpc_refuse(why, RPC_REQUEST,
				  "a message is one object; there are no batches");
	id = jread_get(ret->root, "id");
	if (id && !rpc_id(id, ret->id))
		return rpc_refuse(why, RPC_REQUEST, "an id is a short string or a whole number");
	if (!jread_str(ret->root, "jsonrpc") || !str_eq(jread_str(ret->root, "jsonrpc"), "2.0"))
		return rpc_refuse(why, RPC_REQUEST, "jsonrpc must be \"2.0\"");
	ret->method = jread_str(ret->root, "method");
	if (!ret->method && (jread_get(ret->root, "result") || jread_get(ret->root, "error"))) {
		ret->kind = RPC_IS_RESPONSE;
		return 0;
	}
	if (!ret->method)
		return rpc_refuse(why, RPC_REQUEST, "there is no method");
	params = jread_get(ret->root, "params");
	if (params && jread_kind(params) != JREAD_OBJECT)
		return rpc_refuse(why, RPC_PARAMS, "params must be an object");
	ret->params = params;
	ret->kind = id ? RPC_IS_REQUEST : RPC_IS_NOTIFICATION;
	return 0;
}

void rpc_done(struct rpc_message *m)
{
	m->root = jread_free(m->root);
}

void rpc_begin(struct json *j, struct buf *out, const char *id)
{
	json_init(j, out, false);
	json_object(j);
	json_kstr(j, "jsonrpc", "2.0");
	if (!id)
		return;
	json_key(j, "id");
	if (*id)
		json_raw(j, id, strlen(id));
	else
		json_null(j);
}

void rpc_end(struct json *j)
{
	json_object_end(j);
}

void rpc_error(struct buf *out, const char *id, int code, const char *text, const char *data)
{
	struct json j;

	rpc_begin(&j, out, id);
	json_kobject(&j, "error");
	json_key(&j, "code");
	json_i64(&j, code);
	json_kstr(&j, "message", text);
	if (data) {
		json_key(&j, "data");
		json_raw(&j, data, strlen(data));
	}
	json_object_end(&j);
	rpc_end(&j);
}

// SPDX-License-Identifier: Apache-2.0
// What a call asks for: {method, target, body, kind, accept, key, since, again, signal}. `again`: asking twice does no more than once.
import { BrigError } from "./errors.js";

/** An id or a name, as a part of a path. */
export function ref(word) {
  if (typeof word !== "string" || !/^[A-Za-z0-9._-]{1,128}$/.test(word) || word === "." || word === "..")
    throw new BrigError(`'${word}' is neither an id nor a name`);
  return word;
}

export function query(values) {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) for (const v of [value].flat()) if (v !== undefined && v !== false) words.append(key, String(v));
  const text = words.toString().replaceAll("+", "%20");
  return text ? `?${text}` : "";
}

export function at(sandbox, more = "", values = {}) {
  return `/v1/sandboxes/${ref(sandbox)}${more}${query(values)}`;
}

/** A key stands in a field of its own: nothing in it may end that. */
export function checkKey(key) {
  if (key !== undefined && !/^[!-~]{1,255}$/.test(key)) throw new BrigError("the key is not 1 to 255 visible characters without a blank");
  return key;
}

export function json(method, target, body, more = {}) {
  return { method, target, body: Buffer.from(JSON.stringify(body)), ...more };
}

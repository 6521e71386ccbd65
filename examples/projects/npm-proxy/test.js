// SPDX-License-Identifier: Apache-2.0
const product = 6 * 7;

if (product !== 42) throw new Error(`6 * 7 is not ${product}`);
console.log(`ok: 6 * 7 = ${product}`);

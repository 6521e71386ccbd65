/* SPDX-License-Identifier: Apache-2.0 */
/* base/sys/sanitized.h - whether this is a build with the address sanitizer, whose runtime needs
 * memory and system calls that a process of ours does without. */
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

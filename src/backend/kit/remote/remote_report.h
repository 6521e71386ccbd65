/* SPDX-License-Identifier: Apache-2.0 */
/* backend/kit/remote/remote_report.h - another brig's account of its run, read strictly. */
#pragma once

#include "model/outcome/outcome.h"

int report_read(const char *text, size_t n, struct outcome *o, struct isolation *i, struct err *e);
/* ... of a sandbox that it has opened: what contains it. Its texts are in the outcome's memory. */
int report_facts(const char *text, size_t n, struct outcome *o, struct isolation *i, struct err *e);

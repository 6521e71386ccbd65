/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/ledger.h - removes what killed runs have left in an engine. */
#pragma once

/* Removes containers and networks of runs whose guard is gone. Costs one look into a folder when
 * there are none, and at most a few seconds when the engine does not answer. */
void docker_sweep(void);

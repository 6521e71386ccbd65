/* SPDX-License-Identifier: Apache-2.0 */
/* backend/docker/ledger.h - the sweep, for the table of the backend. */
#pragma once

/* Removes containers and networks of runs whose guard is no more. Costs one look into a folder when
 * there are none, and at most a few seconds when the engine does not answer. */
void docker_sweep(void);

/* SPDX-License-Identifier: Apache-2.0
 *
 * Programmatic launches are chosen for one issue order: who changes the order afterwards chooses them again.
 */
#ifndef STEM_PASS_PDL_H
#define STEM_PASS_PDL_H

#include "pass/pass.h"

#define STEM_PDL_SM 90 /* the first architecture that has them */

/* Sets `programmatic` of every op. Needs streams, deps, order and waits. */
void stem_pdl_build(struct stem_program *p, struct stem_pass_ctx *ctx);

#endif

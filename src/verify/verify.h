/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: judges a plan from the plan alone. Shares no code with the passes. It accepts a plan only if every
 * execution that its steps (eager) or its edges (graph) allow gives what executing the ops in issue order gives.
 */
#ifndef STEM_VERIFY_VERIFY_H
#define STEM_VERIFY_VERIFY_H

#include "base/diag.h"
#include "runtime/plan.h"

/* Reports each fault as an error 30xx (at most 20), with the two ops, their lines and streams, and the edge or wait
 * that is missing. The queue may have no source. True if the plan is safe. Time near-linear in ops + edges for few
 * streams. */
bool stem_verify(const struct stem_plan *plan, struct stem_diags *diags);

#endif

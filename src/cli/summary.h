/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_CLI_SUMMARY_H
#define STEM_CLI_SUMMARY_H

#include "cli/cli.h"

/* To standard output. */
void stem_summary_print(const struct stem_plan *p);

#endif

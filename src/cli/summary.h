/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEM_CLI_SUMMARY_H
#define STEM_CLI_SUMMARY_H

#include "cli/cli.h"

/* To standard output. */
void stem_summary_print(const struct stem_compiled *c);
/* The schedule as text, as wide as the terminal (100 columns elsewhere), with box characters if the locale has them. */
void stem_summary_schedule(const struct stem_plan *p, bool ascii);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * An inline kernel that a compiler rejects, said in one form whoever compiled it: FILE:LINE of the .stem text and that line.
 */
#ifndef STEM_CLI_KERNEL_ERROR_H
#define STEM_CLI_KERNEL_ERROR_H

#include <stdbool.h>

/* False, and nothing printed, unless `said` is about a line of a file. `source`: the file, for a compiler that writes
 * FILE:LINE:COLUMN; NULL: NVRTC, whose FILE(LINE) is unmistakable. `by` names the compiler. */
bool stem_cli_kernel_error(const char *said, const char *source, const char *by);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a compiler has against an inline kernel, as diagnostics of the .stem file, whoever compiled it.
 */
#ifndef STEM_CLI_KERNEL_ERROR_H
#define STEM_CLI_KERNEL_ERROR_H

#include <stdbool.h>

/* Prints each error of `said` once, with its place and the compiler's notes; false, and nothing printed, if none is about a
 * line of the file. `source`: the file, for a compiler that writes FILE:LINE:COLUMN; NULL: NVRTC, whose FILE(LINE) is
 * unmistakable. `by` names the compiler. */
bool stem_cli_kernel_error(const char *said, const char *source, const char *by);

#endif

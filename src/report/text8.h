/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON from texts that need not be UTF-8: sources, names out of plans.
 */
#ifndef STEM_REPORT_TEXT8_H
#define STEM_REPORT_TEXT8_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/out.h"

/* A string; bytes that are not UTF-8 become U+FFFD. */
json_t *stem_json_text(const char *s);
json_t *stem_json_text_n(const char *s, size_t n);
/* Compact, in the order of insertion, with '<' written as an escape; drops the reference. */
void stem_json_put(json_t *value, struct stem_out *o);

#endif

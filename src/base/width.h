/* SPDX-License-Identifier: Apache-2.0
 *
 * How many columns of a terminal a character takes.
 */
#ifndef STEM_BASE_WIDTH_H
#define STEM_BASE_WIDTH_H

#include <stdint.h>

/* 0 for what combines with the character before it, 2 for wide ones, else 1. */
uint32_t stem_width(uint32_t code_point);

#endif

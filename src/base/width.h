/* SPDX-License-Identifier: Apache-2.0
 *
 * What a terminal makes of characters: how many columns one takes, and what would spoil a line.
 */
#ifndef STEM_BASE_WIDTH_H
#define STEM_BASE_WIDTH_H

#include <stdint.h>

/* 0 for what combines with the character before it, 2 for wide ones, else 1. */
uint32_t stem_width(uint32_t code_point);
/* How many bytes the character at the start of s has; 0 if it is no UTF-8, a control character but a tab, or one that would
 * turn the direction of the line. */
uint32_t stem_character(const char *s, uint32_t left);
/* Of a character of n bytes. */
uint32_t stem_code_point(const char *s, uint32_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Text under construction. Printers and emitters write into a stem_out; only the CLI decides where it goes.
 */
#ifndef STEM_BASE_OUT_H
#define STEM_BASE_OUT_H

#include <stdarg.h>
#include <stddef.h>

struct stem_out {
    char *text; /* NUL-terminated once anything was written; NULL before */
    size_t len, cap;
};

void stem_out_bytes(struct stem_out *o, const char *s, size_t n);
void stem_out_str(struct stem_out *o, const char *s);
void stem_out_char(struct stem_out *o, char c);
void stem_out_printf(struct stem_out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void stem_out_vprintf(struct stem_out *o, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* One '?' for each byte of what would spoil a line of a terminal: control characters and what is no UTF-8. */
void stem_out_plain(struct stem_out *o, const char *s);
/* The text (never NULL), still owned by `o`. */
const char *stem_out_text(struct stem_out *o);
void stem_out_free(struct stem_out *o);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The device headers as text: headers.c is made from the .cuh files at build time by scripts/embed.sh.
 */
#ifndef STEM_OPS_HEADERS_H
#define STEM_OPS_HEADERS_H

struct stem_header {
    const char *name, *text;
};

/* Ends with a NULL name. */
extern const struct stem_header stem_headers[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics: records on a queue, never printed by whoever finds the fault. Ids live in diag.def and never
 * change their meaning. A record has one main span, any number of labelled further spans, and help lines.
 */
#ifndef STEM_BASE_DIAG_H
#define STEM_BASE_DIAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/out.h"
#include "base/source.h"

enum stem_diag_id {
    STEM_E_NONE = 0, /* said by another compiler: printed without a number */
#define STEM_DIAG(number, name, title, explanation) STEM_E_##name = number,
#include "base/diag.def"
#undef STEM_DIAG
};

/* A number that is given twice does not compile. */
enum stem_diag_numbers {
#define STEM_DIAG(number, name, title, explanation) STEM_DIAG_NUMBER_##number,
#include "base/diag.def"
#undef STEM_DIAG
};

enum stem_severity { STEM_REMARK, STEM_WARNING, STEM_ERROR };

struct stem_label {
    struct stem_span span;
    const char *text;
};

struct stem_diag {
    enum stem_diag_id id;
    enum stem_severity severity;
    const char *pass;   /* remarks: name of the pass that speaks; else NULL */
    const char *text;
    struct stem_span span; /* begin == end == UINT32_MAX: nowhere in the source */
    const struct stem_label *labels;
    uint32_t n_labels;
    const char *const *help; /* "did you mean ...", ways out */
    uint32_t n_help;
};

#define STEM_NOWHERE ((struct stem_span){UINT32_MAX, UINT32_MAX})

struct stem_diags;

/* At most `max_errors` errors are kept (0: 20); later ones are counted only. The source may be NULL or set later. */
struct stem_diags *stem_diags_new(uint32_t max_errors);
void stem_diags_free(struct stem_diags *q);
void stem_diags_set_source(struct stem_diags *q, const struct stem_source *s);
const struct stem_source *stem_diags_source(const struct stem_diags *q);

/* Each adds a record; labels and help go to the record added last. An error at exactly the place and with the id
 * of an earlier one is dropped. */
void stem_error(struct stem_diags *q, enum stem_diag_id id, struct stem_span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void stem_warning(struct stem_diags *q, enum stem_diag_id id, struct stem_span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* One of any severity with this id at exactly this place is kept. */
bool stem_diags_said(const struct stem_diags *q, enum stem_diag_id id, struct stem_span at);
void stem_remark(struct stem_diags *q, const char *pass, struct stem_span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void stem_diag_label(struct stem_diags *q, struct stem_span at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void stem_diag_help(struct stem_diags *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint32_t stem_diags_errors(const struct stem_diags *q);  /* errors seen, dropped ones included */
uint32_t stem_diags_count(const struct stem_diags *q);   /* records kept */
const struct stem_diag *stem_diags_get(const struct stem_diags *q, uint32_t i);

struct stem_diag_style {
    bool color;
    const char *remarks; /* comma-separated pass names, "all", or NULL for none */
    bool no_warnings;
};
/* `file:line:col: error: text [STEM1203]`, the line, carets, labels, help; in order of discovery. */
void stem_diags_print(const struct stem_diags *q, struct stem_diag_style style, struct stem_out *o);

/* What `mainstem explain` prints; NULL for an unknown number. */
const char *stem_diag_title(uint32_t number);
const char *stem_diag_explanation(uint32_t number);
/* Numbers in ascending order; returns how many there are. */
uint32_t stem_diag_numbers(const uint32_t **numbers);

#endif

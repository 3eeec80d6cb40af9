/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the page, as text in the library (made by scripts/embed.sh).
 */
#ifndef STEM_REPORT_FILES_H
#define STEM_REPORT_FILES_H

struct stem_report_file {
    const char *name, *text; /* base name; the last entry has none */
};
extern const struct stem_report_file stem_report_files[];

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A unit test program is a table of named functions: UNIT_MAIN("area", {"what it shows", function}, ...).
 * The exit status comes from the number of failed assertions: CU_basic_run_tests() alone would return 0.
 */
#ifndef STEM_TESTS_UNIT_H
#define STEM_TESTS_UNIT_H

#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit_test {
    const char *name;
    void (*run)(void);
};

static inline int unit_run(const char *suite_name, const struct unit_test *tests, size_t n)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 99;
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    for (size_t i = 0; i < n; i++)
        if (!suite || !CU_add_test(suite, tests[i].name, tests[i].run))
            return 99;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}

#define UNIT_MAIN(suite, ...)                                          \
    int main(void)                                                     \
    {                                                                  \
        static const struct unit_test tests[] = {__VA_ARGS__};         \
        return unit_run(suite, tests, sizeof tests / sizeof tests[0]); \
    }

/* Compares two texts and shows both when they differ. */
#define UNIT_SAME_TEXT(got, expected) unit_same_text(__FILE__, __LINE__, (got), (expected))
static inline void unit_same_text(const char *file, int line, const char *got, const char *expected)
{
    bool same = strcmp(got, expected) == 0;
    if (!same)
        fprintf(stderr, "\n%s:%d: expected:\n%s\n---- got:\n%s\n", file, line, expected, got);
    CU_ASSERT(same);
}

#endif

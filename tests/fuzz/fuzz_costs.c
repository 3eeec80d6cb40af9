/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a table of costs through the reader and the writer.
 * tests/fuzz/run.sh runs it.
 */
#include "one_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stem_fuzz_costs((const char *)data, size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a plan in JSON through the reader, the writer and the verifier.
 * tests/fuzz/run.sh runs it.
 */
#include "one_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stem_fuzz_plan((const char *)data, size);
    return 0;
}

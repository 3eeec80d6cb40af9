/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a program's textual form through the reader, the passes, emission and the verifier.
 * tests/fuzz/run.sh runs it.
 */
#include "one_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stem_fuzz_ir((const char *)data, size);
    return 0;
}

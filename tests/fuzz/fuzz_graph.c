/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a graph in DOT or as lines through the readers and the lane model.
 * tests/fuzz/run.sh runs it.
 */
#include "one_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stem_fuzz_graph((const char *)data, size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: any bytes through scanner, parser, printer, checks and expansion. What parses must print to a
 * text that parses and prints the same; what expands must be well formed.
 *
 *     CC=clang ./configure --enable-fuzz --enable-sanitize=address,undefined && make tests/fuzz/fuzz_front
 *     tests/fuzz/fuzz_front -dict=tests/fuzz/stem.dict -max_len=8192 CORPUS tests/fuzz/corpus
 */
#include "one_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stem_fuzz_front((const char *)data, size);
    return 0;
}

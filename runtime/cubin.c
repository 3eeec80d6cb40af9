/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a cubin for sm_90 can be run. The assembler of CUDA 13.0 encodes some asynchronous copies that have a cache hint
 * (STEM_HINTS in ops/linear/stream.cuh) as instructions that the GPU refuses, CUDA_ERROR_ILLEGAL_INSTRUCTION: seen where
 * many of them stand in divergent code. They are known by their opcode, which nothing else has.
 */
#include <string.h>

#include "nvrtc.h"

enum { SECTION_CODE = 4, OPCODE = 0xfff, BROKEN_COPY = 0xdae, INSTRUCTION = 16 };

static uint64_t number(const unsigned char *at, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

static bool sound_code(const unsigned char *code, uint64_t bytes)
{
    bool sound = true;
    for (uint64_t i = 0; i + INSTRUCTION <= bytes; i += INSTRUCTION)
        sound &= (number(code + i, 8) & OPCODE) != BROKEN_COPY;
    return sound;
}

bool stem_cubin_sound(const void *data, size_t bytes)
{
    const unsigned char *elf = data;
    if (bytes < 64 || memcmp(elf, "\177ELF\2\1", 6)) /* 64 bits, little-endian */
        return true;
    uint64_t table = number(elf + 40, 8), size = number(elf + 58, 2), n = number(elf + 60, 2);
    if (size < 64 || table > bytes || n > (bytes - table) / size)
        return true;
    bool sound = true;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *section = elf + table + i * size;
        uint64_t at = number(section + 24, 8), length = number(section + 32, 8);
        if (number(section + 8, 8) & SECTION_CODE && at <= bytes && length <= bytes - at)
            sound &= sound_code(elf + at, length);
    }
    return sound;
}

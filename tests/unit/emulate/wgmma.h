/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of wgmma.cuh and mla_wgmma.cuh: barriers of warpgroups, and products of warpgroups with operands in swizzled shared memory, which happen
 * at some moment until they are waited for, each in the order of its thread.
 */
#ifndef STEM_TESTS_EMULATE_WGMMA_H
#define STEM_TESTS_EMULATE_WGMMA_H

#include "emulate/emulate.h"

inline void stem_warpgroup_sync(int which)
{
    emu_barrier &b = emu_self->owner->warpgroup[which];
    emu_meet(b.arrived, b.generation, 128);
}
inline void stem_warpgroup_sync()
{
    stem_warpgroup_sync(0);
}
inline void stem_wgmma_written() {}
template <int N> void stem_registers_more() {}
template <int N> void stem_registers_less() {}
template <int N> void stem_wgmma_hold(float (&)[N]) {}

struct stem_wgmma_matrix {
    unsigned address;
    int stride;
    stem_wgmma_matrix operator+(int sixteenths) const { return {address + 16 * (unsigned)sixteenths, stride}; }
    /* Element i of row r of rows of 128 bytes; i from 64 on: of the next slabs. */
    template <class E> float at(int r, int i) const
    {
        unsigned a = address + (unsigned)(i / 64 * stride + r * 128 + i % 64 * 2);
        a ^= (a >> 7 & 7) << 4;
        if (a + 2 > emu_self->owner->smem.size() - 16)
            abort();
        uint16_t bits;
        memcpy(&bits, emu_self->owner->smem.data() + a, 2);
        return emu_element((const E *)nullptr, bits, 0);
    }
};
inline stem_wgmma_matrix stem_wgmma_at(unsigned address, int stride)
{
    return {address, stride};
}
inline void stem_wgmma_begin() {}
inline void stem_wgmma_end()
{
    for (auto &product : emu_self->products)
        product();
    emu_self->products.clear();
}
/* Happens now, or when it is waited for. */
inline void emu_product(std::function<void()> product)
{
    if (emu_self->products.empty() && emu.random() % 2)
        product();
    else
        emu_self->products.push_back(product);
}
template <class E, int N> void emu_wgmma(float (&d)[N], stem_wgmma_matrix a, stem_wgmma_matrix b, bool add, bool by_rows)
{
    int row = (int)(emu_self->thread.x >> 5 & 3) * 16 + (emu_lane() >> 2), column = 2 * (emu_lane() & 3);
    emu_product([&d, a, b, add, by_rows, row, column] {
        float left[2][16];
        for (int k = 0; k < 32; k++)
            left[k / 16][k % 16] = a.at<E>(row + k / 16 * 8, k % 16);
        for (int i = 0; i < N; i += i & 1 ? 3 : 1) /* a column's two rows */
            for (int k = 0; k < 16; k++) {
                int c = column + i / 4 * 8 + (i & 1);
                float right = by_rows ? b.at<E>(k, c) : b.at<E>(c, k);
                for (int h = 0; h < 2; h++)
                    d[i + 2 * h] = (add || k ? d[i + 2 * h] : 0) + left[h][k] * right;
            }
    });
}
template <class E> void stem_wgmma_keys(const E *, float (&d)[32], stem_wgmma_matrix a, stem_wgmma_matrix b, int add)
{
    emu_wgmma<E>(d, a, b, add, false);
}
template <class E, int N> void stem_wgmma_values(const E *, float (&d)[N], stem_wgmma_matrix a, stem_wgmma_matrix b)
{
    emu_wgmma<E>(d, a, b, true, true);
}

/* Code i of row r. */
inline float emu_code(stem_wgmma_matrix m, int r, int i)
{
    unsigned a = m.address + (unsigned)(r * 128 + i);
    a ^= (a >> 7 & 7) << 4;
    if (a + 1 > emu_self->owner->smem.size() - 16)
        abort();
    return emu_e4m3((uint8_t)emu_self->owner->smem[a]);
}
template <int N> void stem_wgmma_f8(float (&d)[N], stem_wgmma_matrix a, stem_wgmma_matrix b, int add)
{
    int row = (int)(emu_self->thread.x >> 5 & 3) * 16 + (emu_lane() >> 2), column = 2 * (emu_lane() & 3);
    emu_product([&d, a, b, add, row, column] {
        for (int i = 0; i < N; i++) {
            d[i] = add ? d[i] : 0;
            for (int k = 0; k < 32; k++)
                d[i] += emu_code(a, row + i / 2 % 2 * 8, k) * emu_code(b, column + i / 4 * 8 + (i & 1), k);
        }
    });
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of fill.h, valid as C and as CUDA C++: fill.h includes it as code, builtin.c as text for NVRTC. Each
 * float operation here rounds at most once and only in one place, so that contraction cannot change a bit.
 */
STEM_FILL_CODE(
union stem_fill_bits {
    float f;
    unsigned u;
};

struct stem_fill_rule {
    unsigned long long key;
    float scale;
    int mode;         /* 0: zeros; 1: uniform in [-scale, scale); 2: uniform in [0.5, 1.5) * scale; 3: offset binary */
    int bits;         /* of an element */
    int mantissa;     /* bits, without the leading one */
    int bias;         /* of the exponent */
    unsigned largest; /* code of the largest finite value */
};

/* splitmix64 (Steele, Lea, Flood 2014): the output for counter i + 1. */
STEM_FILL_FN unsigned stem_fill_hash(unsigned long long key, unsigned long long i)
{
    unsigned long long z = key + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (unsigned)((z ^ (z >> 31)) >> 32);
}

/* 24 random bits h: mode 1 is (h / 2^23 - 1) * scale; the inner term is exact. Mode 2 is (h / 2^24 + 0.5) * scale,
 * whose sum is rounded first. */
STEM_FILL_FN float stem_fill_value(const struct stem_fill_rule *r, unsigned long long i)
{
    int h = (int)(stem_fill_hash(r->key, i) >> 8);
    if (r->mode == 2)
        return ((float)h * 0x1p-24f + 0.5f) * r->scale;
    return (float)(h - 0x800000) * 0x1p-23f * r->scale;
}

/* Rounds to nearest, ties to even, saturating; f32 subnormals become zero. */
STEM_FILL_FN unsigned stem_fill_encode(const struct stem_fill_rule *r, float v)
{
    union stem_fill_bits b;
    b.f = v;
    if (r->bits == 32)
        return b.u;
    unsigned sign = (b.u >> 31) << (r->bits - 1);
    int exponent = (int)((b.u >> 23) & 255) - 127;
    unsigned m = (b.u & 0x7fffff) | 0x800000;
    int least = 1 - r->bias;
    int shift = 23 - r->mantissa + (exponent < least ? least - exponent : 0);
    if (shift > 24)
        return sign;
    unsigned q = m >> shift;
    unsigned rest = m & ((1u << shift) - 1);
    unsigned half = 1u << (shift - 1);
    if (rest > half || (rest == half && (q & 1)))
        q++;
    unsigned code = exponent < least ? q : ((unsigned)(exponent - least) << r->mantissa) + q;
    return sign | (code > r->largest ? r->largest : code);
}

STEM_FILL_FN unsigned stem_fill_element(const struct stem_fill_rule *r, unsigned long long i)
{
    if (r->mode == 3) { /* the least of them becomes the middle one, which is zero: no mean */
        unsigned code = stem_fill_hash(r->key, i) >> (32 - r->bits);
        return code ? code : 1u << (r->bits - 1);
    }
    return r->mode ? stem_fill_encode(r, stem_fill_value(r, i)) : 0u;
}
)

/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of even.cu: shapes to check, and configurations to time.
 */
#ifdef WIDE
static void check_all() {} /* bench.cu does */
static void time_all()
{
    static const int shapes[][2] = {{7168, 16384}, {24576, 1536}, {4608, 7168}, {7168, 2048},
                                    {2112, 7168},  {3072, 1536},  {151936, 2048}};
    for (int t : {1, 4, 16, 64})
        for (auto &s : shapes) {
            int n = s[0], k = s[1];
            if (t <= 8) {
                time_few<1, 4, 1>(t, n, k);
                time_few<1, 4, 2>(t, n, k);
            } else if (t <= 16) {
                time_few<2, 3, 1>(t, n, k);
                time_few<2, 3, 2>(t, n, k);
                time_few<2, 2, 1>(t, n, k);
            } else {
                time_few<8, 2, 1>(t, n, k);
            }
        }
}
#else
static void check_all()
{
    for (int m : {1, 5, 8}) {
        check<F, 1, 1, 4, 8, 2, 1>(m, 7168, 1536, 2);
        check<F, 2, 1, 3, 8, 2, 1>(m, 2112, 2048, 1);
        check<F, 1, 1, 3, 12, 2, 2>(m, 4608, 2048, 1);
        check<F, 1, 1, 2, 16, 1, 4>(m, 4608, 7168, 1);
    }
    for (int m : {9, 16, 19}) {
        check<F, 1, 2, 2, 8, 2, 2>(m, 500, 2048, 1);
        check<F, 2, 2, 2, 12, 1, 1>(m, 7168, 1536, 1);
        check<F, 2, 2, 2, 8, 1, 4>(m, 4608, 7168, 1);
        check<F, 1, 2, 2, 16, 1, 4>(m, 600, 7168, 1);
    }
    check<F, 1, 8, 2, 8, 1, 8>(64, 600, 7168, 1);
    check<F, 2, 8, 2, 8, 1, 4>(150, 7168, 2048, 1);
    if (IS_F8)
        check<F, 1, 1, 4, 8, 2, 2>(3, 140, 400, 1);
    check_warpgroups<F>();
    if constexpr (HAS_FIXED)
        for (int m : {1, 2, 5}) {
            check<FIXED, 1, 2, 4, 8, 2, 2>(m, 2112, 2048, 2);
            check<FIXED, 2, 1, 2, 8, 2, 1>(m, 4608, 7168, 1);
            check<FIXED, 1, 2, 2, 16, 1, 4>(m, 4608, 7168, 1);
        }
}

static void time_few_tokens(int t, int n, int k) /* up to 8 */
{
    if (IS_F8) {
        time_one<F, 1, 1, 4, 8, 2, 1>(t, n, k);
        time_one<F, 1, 1, 4, 8, 2, 2>(t, n, k);
        time_one<F, 2, 1, 3, 8, 2, 1>(t, n, k);
        time_one<F, 1, 1, 4, 16, 1, 1>(t, n, k);
        time_one<F, 1, 1, 4, 16, 1, 2>(t, n, k);
        time_one<F, 1, 1, 4, 16, 1, 4>(t, n, k);
    } else {
        time_one<F, 1, 1, 4, 8, 2, 1>(t, n, k);
        time_one<F, 1, 1, 4, 8, 2, 2>(t, n, k);
        time_one<F, 1, 1, 3, 12, 2, 1>(t, n, k);
        time_one<F, 1, 1, 3, 12, 2, 2>(t, n, k);
        time_one<F, 1, 1, 2, 16, 1, 1>(t, n, k);
        time_one<F, 1, 1, 2, 16, 1, 2>(t, n, k);
        time_one<F, 1, 1, 2, 16, 1, 4>(t, n, k);
        time_one<F, 1, 1, 3, 16, 1, 2>(t, n, k);
        time_one<F, 2, 1, 2, 12, 1, 1>(t, n, k);
        time_one<F, 2, 1, 2, 12, 1, 2>(t, n, k);
    }
}
static void time_one_token(int t, int n, int k)
{
    if constexpr (HAS_FIXED) {
        time_one<FIXED, 2, 1, 2, 8, 2, 1>(t, n, k);
        time_one<FIXED, 1, 1, 4, 8, 2, 1>(t, n, k);
        time_one<FIXED, 1, 1, 4, 8, 2, 2>(t, n, k);
        time_one<FIXED, 1, 1, 2, 16, 1, 1>(t, n, k);
        time_one<FIXED, 1, 1, 2, 16, 1, 2>(t, n, k);
        time_one<FIXED, 1, 1, 2, 16, 1, 4>(t, n, k);
    }
    time_few_tokens(t, n, k);
}
static void time_more_tokens(int t, int n, int k) /* up to 16 */
{
    time_one<F, 1, 2, 2, 8, 2, 1>(t, n, k);
    time_one<F, 1, 2, 2, 8, 2, 2>(t, n, k);
    time_one<F, 1, 2, 3, 8, 1, 4>(t, n, k);
    time_one<F, 1, 2, 2, 12, 1, 1>(t, n, k);
    time_one<F, 1, 2, 2, 12, 1, 2>(t, n, k);
    time_one<F, 1, 2, 2, 12, 1, 4>(t, n, k);
    time_one<F, 1, 2, 2, 16, 1, 1>(t, n, k);
    time_one<F, 1, 2, 2, 16, 1, 2>(t, n, k);
    time_one<F, 1, 2, 2, 16, 1, 4>(t, n, k);
    time_one<F, 2, 2, 2, 8, 1, 1>(t, n, k);
    time_one<F, 2, 2, 2, 8, 1, 4>(t, n, k);
    time_one<F, 2, 2, 2, 12, 1, 1>(t, n, k);
}
static void time_many_tokens(int t, int n, int k) /* up to 64 */
{
    time_one<F, 1, 8, 2, 8, 1, 1>(t, n, k);
    time_one<F, 1, 8, 2, 8, 1, 2>(t, n, k);
    time_one<F, 1, 8, 2, 8, 1, 4>(t, n, k);
    time_one<F, 1, 8, 2, 8, 1, 8>(t, n, k);
    time_one<F, 2, 8, 2, 8, 1, 2>(t, n, k);
    time_one<F, 2, 8, 2, 8, 1, 4>(t, n, k);
}

static void time_all()
{
    static const int shapes[][2] = {{7168, 16384}, {24576, 1536}, {4608, 7168}, {7168, 2048}, {2112, 7168}};
    for (int t : {1, 4, 16, 64})
        for (auto &s : shapes) {
            time_warpgroups<F>(t, s[0], s[1]);
            (t == 1 ? time_one_token : t <= 8 ? time_few_tokens : t <= 16 ? time_more_tokens : time_many_tokens)(t, s[0], s[1]);
        }
}
#endif

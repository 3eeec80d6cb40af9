// SPDX-License-Identifier: Apache-2.0
//
// A C++ caller: the headers are C++-safe, and what they declare links.
#include <mainstem.h>

#include <cstdio>
#include <cstring>

int main()
{
    static const char text[] = "module a;\n?";
    stem_program_options options{};
    stem_jit *jit = stem_jit_text("a.stem", text, std::strlen(text), &options);
    uint32_t n = 0;
    const stem_message *m = stem_jit_messages(jit, &n);
    bool ok = !stem_jit_plan(jit) && n == 1 && m[0].id == 1001 && m[0].line == 2 && stem_explain(m[0].id);
    stem_jit_free(jit);

    stem_rt_options ro{};
    ro.libcuda = "/nowhere/libcuda.so.1";
    stem_rt *rt = nullptr;
    stem_rt_error err{};
    ok = ok && stem_rt_open(&ro, &rt, &err) == STEM_E_NO_DRIVER && std::strstr(err.message, "/nowhere/libcuda.so.1");
    std::printf("%s, version %s\n", ok ? "fine" : "wrong", stem_version());
    return ok ? 0 : 1;
}

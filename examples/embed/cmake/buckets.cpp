// SPDX-License-Identifier: Apache-2.0
//
// A C++ program around emitted C: creates the program, lists its tensors, and says which bucket serves how many tokens.
#include "qkv.h"

#include <cstdio>

int main(int argc, char **argv)
{
    qkv_options options = {};
    qkv_error err;
    qkv_program *program;
    options.libcuda = argc > 1 ? argv[1] : nullptr;
    switch (qkv_create(&options, &program, &err)) {
    case QKV_OK:
        break;
    case QKV_E_NO_DRIVER:
    case QKV_E_NO_DEVICE:
        std::printf("skipped: %s\n", err.message);
        return 77;
    default:
        std::fprintf(stderr, "buckets: %s\n", err.message);
        return 1;
    }
    const int64_t counts[] = {1, 2, 3, 5, 64, 65};
    for (int64_t tokens : counts) {
        int64_t bucket = qkv_bucket(tokens);
        std::printf("%lld tokens: %lld rows\n", static_cast<long long>(tokens), static_cast<long long>(bucket));
        if (bucket == 0 && qkv_launch(program, tokens, nullptr, &err) == QKV_E_BUCKET)
            std::printf("  %s\n", err.message);
    }
    std::printf("%d tensors, from %s to %s\n", static_cast<int>(QKV_N_TENSORS), qkv_tensor_name(0),
                qkv_tensor_name(QKV_N_TENSORS - 1));
    qkv_destroy(program);
    return 0;
}

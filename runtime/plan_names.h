/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that stand for enums in the JSON form of a plan, in enum order; used by its writer and its reader.
 */
#ifndef STEM_RUNTIME_PLAN_NAMES_H
#define STEM_RUNTIME_PLAN_NAMES_H

#define STEM_NAMES_BUFFER                                                                                            \
    {                                                                                                                \
        "temp", "input", "output", "weight", "state"                                                                 \
    }
#define STEM_NAMES_ACCESS                                                                                            \
    {                                                                                                                \
        "", "read", "write", "readwrite"                                                                             \
    }
#define STEM_NAMES_SCALAR                                                                                            \
    {                                                                                                                \
        "i32", "i64", "f32"                                                                                          \
    }
#define STEM_NAMES_WORK                                                                                              \
    {                                                                                                                \
        "launch", "memset", "extern", "matmul"                                                                                 \
    }
#define STEM_NAMES_STEP                                                                                              \
    {                                                                                                                \
        "op", "record", "wait", "alloc", "free", "segment"                                                           \
    }
#define STEM_NAMES_EDGE                                                                                              \
    {                                                                                                                \
        "full", "programmatic"                                                                                       \
    }

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the source in emitted C: which may stand in front of every identifier, and what dims and extern functions are called.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "emit/host.h"

enum { MOST_NAME = 64 };

bool stem_host_name_ok(const char *name)
{
    size_t n = 0;
    for (; name[n]; n++)
        if (!(isalpha((unsigned char)name[n]) || (n && (name[n] == '_' || isdigit((unsigned char)name[n])))))
            return false;
    return n > 0 && n <= MOST_NAME;
}

/* The lists here are in the order of strcmp. */
static int by_text(const void *a, const void *b)
{
    return strcmp(a, *(const char *const *)b);
}
#define IN(list, name) (bsearch((name), (list), sizeof(list) / sizeof *(list), sizeof *(list), by_text) != NULL)

/* NAME.h lies where the compiler is told to look for headers, also for those of the system. */
static bool is_header(const char *name)
{
    static const char *const headers[] = {
        "alloca", "argp", "assert", "complex", "crypt", "ctype", "device_types", "dirent", "dlfcn", "driver_types", "elf",
        "endian", "errno", "fcntl", "features", "fenv", "float", "fnmatch", "getopt", "glob", "grp", "iconv", "inttypes",
        "iso646", "langinfo", "libgen", "limits", "link", "locale", "malloc", "math", "memory", "netdb", "nvrtc", "poll",
        "pthread", "pwd", "regex", "sched", "search", "semaphore", "setjmp", "signal", "spawn", "stdalign", "stdarg",
        "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "stdnoreturn", "string", "strings", "syslog",
        "termios", "tgmath", "threads", "time", "uchar", "ucontext", "unistd", "utime", "values", "vector_types", "wchar",
        "wctype", "wordexp",
    };
    return IN(headers, name);
}

/* NAME_create and the like, or NAME_OK, are there already. */
static bool is_prefix(const char *name)
{
    static const char *const prefixes[] = {
        "F", "R", "W", "X", "aio", "argz", "clnt", "cnd", "epoll", "f", "gai", "memfd", "mtx", "r", "sem", "si", "stem",
        "thrd", "timer", "timerfd", "tss", "w", "x",
    };
    return IN(prefixes, name) || !strncmp(name, "pthread_", 8) || !strncmp(name, "posix_", 6);
}

static bool is_target(const char *name)
{
    static const char *const targets[] = {
        "ALL_BUILD", "INSTALL", "PACKAGE", "RUN_TESTS", "ZERO_CHECK", "all", "clean", "dl", "edit_cache", "help",
        "install", "package", "package_source", "preinstall", "rebuild_cache", "test",
    };
    return IN(targets, name);
}

const char *stem_host_name_taken(const char *name)
{
    if (is_header(name))
        return "a header of the system has the name of the one that would be written";
    if (!strncmp(name, "cuda", 4))
        return "headers of CUDA begin with `cuda`, as the one that would be written does";
    if (is_prefix(name))
        return "identifiers of the C library, or of Mainstem, begin with that name";
    return is_target(name) ? "CMake has a target of that name" : NULL;
}

/* A dim as a parameter. Its name is kept if nothing else can have it: what is longer in capitals may be a macro, and I is one. */
const char *stem_host_dim(struct stem_arena *a, const char *dim)
{
    bool kept = isupper((unsigned char)dim[0]) && strlen(dim) <= 2 && strcmp(dim, "I");
    for (const char *c = dim; *c && kept; c++)
        kept = isupper((unsigned char)*c) || isdigit((unsigned char)*c);
    return kept ? dim : stem_arena_printf(a, "%s_", dim);
}

static bool is_word(const char *name)
{
    static const char *const words[] = {
        "alignas", "alignof", "alloc", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "caller_orders",
        "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl",
        "complex", "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "cublaslt",
        "decltype", "default", "delete", "device", "do", "double", "dynamic_cast", "else", "enum", "errno", "explicit",
        "export", "extern", "false", "float", "for", "free", "friend", "goto", "i386", "if", "image", "imaginary",
        "include", "inline", "int", "libcuda", "linux", "long", "mutable", "namespace", "new", "noexcept", "noreturn",
        "not", "not_eq", "nullptr", "nvrtc", "operator", "or", "or_eq", "pool", "private", "protected", "public",
        "register", "reinterpret_cast", "requires", "restrict", "return", "short", "signed", "sizeof", "slab",
        "slab_bytes", "static", "static_assert", "static_cast", "stderr", "stdin", "stdout", "struct", "switch",
        "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "typeof",
        "typeof_unqual", "union", "unix", "unsigned", "user", "using", "virtual", "void", "volatile", "wchar_t", "while",
        "xor", "xor_eq",
    };
    return IN(words, name);
}

/* An extern function as a member of the options: apart from their others, from keywords of C and C++, and from macros. */
const char *stem_host_member(struct stem_arena *a, const char *name)
{
    bool lower = false;
    for (const char *c = name; *c; c++)
        lower |= islower((unsigned char)*c) != 0;
    bool kept = lower && name[0] != '_' && name[strlen(name) - 1] != '_' && !is_word(name);
    return kept ? name : stem_arena_printf(a, "%s_", name);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling a kernel for the host: C++ text in, path of a shared object out. Objects are kept in the cache directory
 * under the hash of their text and compiler; one appears there by rename, so that it is complete or absent, whoever
 * else is writing. Behind each stands its checksum (to the loader that is nothing), since mapping a damaged object ends
 * the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cpu/device.h"
#include "runtime/cache.h"

extern char **environ;

#define DIRECTORY_SPACE 4096
#define PATH_SPACE 4160
#define TEMPORARY "tmp-"
#define MAX_ARGS 24
#define MAX_LOG 2000 /* bytes of the compiler's messages that are passed on */

static bool make_directories(char *path)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            (void)mkdir(path, 0777); /* may be there already; the last one tells */
            *p = '/';
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* Directory number `nr` for objects, DIRECTORY_SPACE bytes: $MAINSTEM_CACHE, else the user's cache, with "/cpu"; then one in /tmp,
 * for where the first cannot be written. False if it cannot be used. */
static bool cache_directory(uint32_t nr, char *path)
{
    const char *own = getenv("MAINSTEM_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (nr == 0 && own && *own)
        snprintf(path, DIRECTORY_SPACE, "%s/cpu", own);
    else if (nr == 0 && xdg && *xdg)
        snprintf(path, DIRECTORY_SPACE, "%s/mainstem/cpu", xdg);
    else if (nr == 0 && home && *home)
        snprintf(path, DIRECTORY_SPACE, "%s/.cache/mainstem/cpu", home);
    else
        snprintf(path, DIRECTORY_SPACE, "/tmp/mainstem-%u/cpu", (unsigned)getuid());
    return make_directories(path) && access(path, W_OK) == 0;
}

/* ---- checksums ---- */

struct seal {
    char magic[8];
    uint64_t high, low; /* XXH3 of what precedes */
};
static const char seal_magic[8] = {'S', 'T', 'E', 'M', 'C', 'P', 'U', '1'};

/* The whole file, malloc'd; NULL if it cannot be read. */
static char *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    struct stat s;
    char *all = f && !fstat(fileno(f), &s) && S_ISREG(s.st_mode) && s.st_size > 0 ? malloc((size_t)s.st_size) : NULL;
    if (all) {
        *bytes = (size_t)s.st_size;
        if (fread(all, 1, *bytes, f) != *bytes) {
            free(all);
            all = NULL;
        }
    }
    if (f)
        fclose(f);
    return all;
}

static struct seal seal_of(const char *data, size_t bytes)
{
    XXH128_hash_t h = XXH3_128bits(data, bytes);
    struct seal seal = {.high = h.high64, .low = h.low64};
    memcpy(seal.magic, seal_magic, sizeof seal_magic);
    return seal;
}

/* Puts the checksum behind an object. */
static bool seal_object(const char *path)
{
    size_t bytes = 0;
    char *all = read_file(path, &bytes);
    FILE *f = all ? fopen(path, "ab") : NULL;
    struct seal seal = {0};
    if (f)
        seal = seal_of(all, bytes);
    bool ok = f && fwrite(&seal, sizeof seal, 1, f) == 1;
    free(all);
    return (f ? fclose(f) == 0 : false) && ok;
}

static bool is_intact(const char *path)
{
    size_t bytes = 0;
    char *all = read_file(path, &bytes);
    bool ok = false;
    if (all && bytes > sizeof(struct seal)) {
        struct seal seal = seal_of(all, bytes - sizeof seal);
        ok = !memcmp(&seal, all + bytes - sizeof seal, sizeof seal);
    }
    free(all);
    return ok;
}

/* ---- the compiler ---- */

static bool write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    return (f ? fclose(f) == 0 : false) && ok;
}

/* The end of a log, malloc'd, never NULL unless out of memory. */
static char *read_log(const char *path)
{
    char *log = calloc(1, MAX_LOG + 1);
    FILE *f = fopen(path, "r");
    if (f && log)
        log[fread(log, 1, MAX_LOG, f)] = 0;
    if (f)
        fclose(f);
    return log;
}

/* Runs `compiler` (which may carry options of its own); its exit status, or -1 if it could not be started. */
static int run_compiler(const char *compiler, const char *source, const char *object, const char *log)
{
    char words[1024], *save = NULL;
    char *argv[MAX_ARGS] = {0};
    int n = 0;
    snprintf(words, sizeof words, "%s", compiler);
    /* -ftabstop: columns of messages count bytes */
    const char *const options[] = {"-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-w", "-ftabstop=1",
                                   "-x", "c++", source, "-o", object};
    const int n_options = sizeof options / sizeof *options;
    for (char *w = strtok_r(words, " \t", &save); w && n < MAX_ARGS - n_options - 1; w = strtok_r(NULL, " \t", &save))
        argv[n++] = w;
    if (!n)
        return -1;
    for (int i = 0; i < n_options; i++)
        argv[n++] = (char *)options[i];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int failed = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ), status = 0;
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    return code == 127 ? -1 : code;
}

enum outcome {
    BUILT,
    REJECTED, /* by the compiler, at a place of the text */
    FAILED,
    NO_ROOM, /* the directory cannot be written: another one may do */
};

/* Whether a compiler's log has an error at a line of a file: "FILE:LINE:COLUMN: error: ...". Else it is not the text that is at
 * fault but the compiler, the assembler or the disk. */
static bool has_place(const char *log)
{
    static const char *const words[] = {": error: ", ": fatal error: "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *at = strstr(log, words[i]); at; at = strstr(at + 1, words[i]))
            if (at > log && at[-1] >= '0' && at[-1] <= '9')
                return true;
    return false;
}

/* Why `compiler` ended with a status other than 0. */
static enum outcome judge(const char *compiler, int code, const char *log, const char *what, bool *rejected, char **error)
{
    char *said = read_log(log);
    const char *text = said ? said : "";
    enum outcome out = has_place(text) ? REJECTED : strstr(text, strerror(ENOSPC)) ? NO_ROOM : FAILED;
    if (out == REJECTED && rejected)
        stem_cpu_fail(error, "%s", text);
    else if (out == REJECTED)
        stem_cpu_fail(error, "the inline kernel '%s' does not compile for the CPU device:\n%s", what, text);
    else
        stem_cpu_fail(error, "the C++ compiler '%s'%s fails with status %d on the inline kernel '%s' and %s%s", compiler,
                      getenv("CXX") == compiler ? ", which CXX names," : "", code, what, *text ? "says:\n" : "says nothing", text);
    if (out == REJECTED && rejected)
        *rejected = true;
    free(said);
    return out;
}

/* Tries the compilers in turn; the first that can be started decides. */
static enum outcome build(const char *text, const char *stem, const char *object, const char *what, bool *rejected, char **error)
{
    const char *const compilers[] = {getenv("CXX"), "c++", "g++", "clang++"};
    char source[PATH_SPACE + 8], log[PATH_SPACE + 8];
    snprintf(source, sizeof source, "%s.cc", stem);
    snprintf(log, sizeof log, "%s.log", stem);
    enum outcome out = BUILT;
    if (!write_file(source, text)) {
        stem_cpu_fail(error, "cannot write '%s': %s", source, strerror(errno));
        out = NO_ROOM;
    }
    int code = -1;
    const char *compiler = NULL;
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers && code < 0 && out == BUILT; i++)
        if ((compiler = compilers[i]) && *compiler)
            code = run_compiler(compiler, source, object, log);
    if (code > 0) {
        out = judge(compiler, code, log, what, rejected, error);
    } else if (code < 0 && out == BUILT) {
        stem_cpu_fail(error, "no C++ compiler was found to compile the inline kernel '%s' for the CPU device; "
                             "install one (Debian: apt-get install g++) or set CXX", what);
        out = FAILED;
    }
    unlink(source);
    unlink(log);
    return out;
}

/* Makes the object `path` of the directory by way of a file of this call alone: the directory may be shared, and threads may
 * compile the same text. */
static enum outcome make_object(const char *directory, const char *path, const char *text, const char *what, bool *rejected,
                                char **error)
{
    char stem[PATH_SPACE], fresh[PATH_SPACE + 8];
    stem_cache_sweep(directory, TEMPORARY);
    snprintf(stem, sizeof stem, "%s/" TEMPORARY "XXXXXX", directory);
    int fd = mkstemp(stem);
    if (fd < 0) {
        stem_cpu_fail(error, "cannot write to '%s': %s", directory, strerror(errno));
        return NO_ROOM;
    }
    close(fd);
    snprintf(fresh, sizeof fresh, "%s.so", stem);
    enum outcome out = build(text, stem, fresh, what, rejected, error);
    if (out == BUILT && (!seal_object(fresh) || rename(fresh, path))) {
        stem_cpu_fail(error, "cannot write '%s': %s", path, strerror(errno));
        out = NO_ROOM;
    }
    unlink(fresh);
    unlink(stem);
    return out;
}

char *stem_cpu_compile(const char *text, const char *what, bool *rejected, char **error)
{
    const char *cxx = getenv("CXX");
    XXH128_hash_t h = XXH3_128bits(text, strlen(text));
    XXH64_hash_t compiler = cxx ? XXH3_64bits(cxx, strlen(cxx)) : 0;
    char directory[DIRECTORY_SPACE], *path = malloc(PATH_SPACE), *why = NULL;
    enum outcome out = NO_ROOM;
    for (uint32_t nr = 0; path && out == NO_ROOM && nr < 2; nr++) {
        if (!cache_directory(nr, directory))
            continue;
        snprintf(path, PATH_SPACE, "%s/%016llx%016llx.so", directory, (unsigned long long)(h.high64 ^ compiler),
                 (unsigned long long)h.low64);
        free(why);
        why = NULL;
        out = is_intact(path) ? BUILT : make_object(directory, path, text, what, rejected, &why);
    }
    if (out == BUILT) {
        free(why);
        return path;
    }
    stem_cpu_fail(error, "%s", why ? why : "no directory to compile into: set MAINSTEM_CACHE");
    free(why);
    free(path);
    return NULL;
}

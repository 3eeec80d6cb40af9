/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling a kernel for the host: C++ text in, path of a shared object out. Objects are kept in the cache directory
 * under the hash of their text and compiler; one appears there by rename, so that it is complete or absent, whoever
 * else is writing.
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

extern char **environ;

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

/* malloc'd directory for objects: $MAINSTEM_CACHE, else the user's cache, else /tmp; with "/cpu". */
static char *cache_directory(void)
{
    const char *own = getenv("MAINSTEM_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = malloc(4096);
    if (!path)
        return NULL;
    if (own && *own)
        snprintf(path, 4096, "%s/cpu", own);
    else if (xdg && *xdg)
        snprintf(path, 4096, "%s/mainstem/cpu", xdg);
    else if (home && *home)
        snprintf(path, 4096, "%s/.cache/mainstem/cpu", home);
    else
        snprintf(path, 4096, "/tmp/mainstem-%u/cpu", (unsigned)getuid());
    if (make_directories(path) && access(path, W_OK) == 0)
        return path;
    snprintf(path, 4096, "/tmp/mainstem-%u/cpu", (unsigned)getuid());
    if (make_directories(path) && access(path, W_OK) == 0)
        return path;
    free(path);
    return NULL;
}

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

/* Tries the compilers in turn; the first that can be started decides. */
static bool build(const char *text, const char *stem, const char *object, const char *what, bool *rejected, char **error)
{
    const char *const compilers[] = {getenv("CXX"), "c++", "g++", "clang++"};
    char source[4200], log[4200];
    snprintf(source, sizeof source, "%s.cc", stem);
    snprintf(log, sizeof log, "%s.log", stem);
    if (!write_file(source, text))
        return stem_cpu_fail(error, "cannot write '%s': %s", source, strerror(errno));
    int code = -1;
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers && code < 0; i++)
        if (compilers[i] && *compilers[i])
            code = run_compiler(compilers[i], source, object, log);
    if (code < 0) {
        stem_cpu_fail(error, "no C++ compiler was found to compile the inline kernel '%s' for the CPU device; "
                             "install one (Debian: apt-get install g++) or set CXX", what);
    } else if (code > 0) {
        char *said = read_log(log);
        if (rejected)
            *rejected = true;
        stem_cpu_fail(error, rejected ? "%.0s%s" : "the inline kernel '%s' does not compile for the CPU device:\n%s", what,
                      said ? said : "");
        free(said);
    }
    unlink(source);
    unlink(log);
    return code == 0;
}

char *stem_cpu_compile(const char *text, const char *what, bool *rejected, char **error)
{
    const char *cxx = getenv("CXX");
    XXH128_hash_t h = XXH3_128bits(text, strlen(text));
    XXH64_hash_t compiler = cxx ? XXH3_64bits(cxx, strlen(cxx)) : 0;
    char *directory = cache_directory(), *path = malloc(4200);
    char stem[4160], fresh[4200];
    if (!directory || !path) {
        free(directory);
        free(path);
        stem_cpu_fail(error, "no directory to compile into: set MAINSTEM_CACHE");
        return NULL;
    }
    snprintf(path, 4200, "%s/%016llx%016llx.so", directory, (unsigned long long)(h.high64 ^ compiler),
             (unsigned long long)h.low64);
    struct stat s;
    bool ok = stat(path, &s) == 0 && s.st_size > 0;
    if (!ok) {
        /* a name of this call alone: the directory may be shared, and threads may compile the same text */
        snprintf(stem, sizeof stem, "%s/tmp-XXXXXX", directory);
        int fd = mkstemp(stem);
        if (fd >= 0) {
            close(fd);
            snprintf(fresh, sizeof fresh, "%s.so", stem);
            ok = build(text, stem, fresh, what, rejected, error) &&
                 (rename(fresh, path) == 0 || stem_cpu_fail(error, "cannot write '%s': %s", path, strerror(errno)));
            unlink(fresh);
            unlink(stem);
        } else {
            stem_cpu_fail(error, "cannot write to '%s': %s", directory, strerror(errno));
        }
    }
    free(directory);
    if (!ok) {
        free(path);
        path = NULL;
    }
    return path;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that commands write: whole or not at all, and never what the command reads.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    dev_t device;
    ino_t node;
} inputs[64];
static uint32_t n_inputs;

void stem_cli_reads(const char *path)
{
    struct stat s;
    if (n_inputs < sizeof inputs / sizeof *inputs && strcmp(path, "-") && !stat(path, &s) && S_ISREG(s.st_mode)) {
        inputs[n_inputs].device = s.st_dev;
        inputs[n_inputs++].node = s.st_ino;
    }
}

static bool is_input(const char *path)
{
    struct stat s;
    for (uint32_t i = stat(path, &s) ? n_inputs : 0; i < n_inputs; i++)
        if (inputs[i].device == s.st_dev && inputs[i].node == s.st_ino) {
            stem_cli_error("'%s' is what this command reads: it is not overwritten", path);
            return true;
        }
    return false;
}

static void directory_of(const char *path, char dir[PATH_MAX])
{
    const char *slash = strrchr(path, '/'); /* "/x" is in "/" */
    int len = slash ? slash == path ? 1 : (int)(slash - path) : 1;
    snprintf(dir, PATH_MAX, "%.*s", len, slash ? path : ".");
}

bool stem_cli_can_write(const char *path)
{
    if (is_input(path))
        return false;
    char dir[PATH_MAX];
    struct stat there;
    bool exists = !stat(path, &there), special = exists && !S_ISREG(there.st_mode);
    directory_of(path, dir);
    errno = exists && S_ISDIR(there.st_mode) ? EISDIR : 0;
    if (!errno && !access(special ? path : dir, special ? W_OK : W_OK | X_OK))
        return true;
    stem_cli_error("cannot write '%s': %s", path, strerror(errno));
    return false;
}

/* ---- writing a whole file ---- */

static bool put(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR)
            return false;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* A file without a name in the directory of `path`: nothing is left of it if the program is killed. -1: this file system or
 * kernel has none. */
static int open_unnamed(const char *path)
{
    char dir[PATH_MAX], self[64];
    directory_of(path, dir);
    int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (fd < 0 || !access(self, F_OK)) /* without /proc it could not be named */
        return fd;
    close(fd);
    return -1;
}

/* The name `path`, which may be taken, for an unnamed file, by way of the name `temp`: linkat replaces nothing. */
static bool give_name(int fd, const char *path, const char *temp)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (!linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
        return true;
    if (errno != EEXIST)
        return false;
    unlink(temp);
    return !linkat(AT_FDCWD, self, AT_FDCWD, temp, AT_SYMLINK_FOLLOW) && !rename(temp, path);
}

/* Writes, and closes fd; errno says why not. */
static bool fill(int fd, const void *data, size_t len)
{
    bool fine = put(fd, data, len);
    int why = errno;
    if (close(fd) && fine)
        return false;
    errno = why;
    return fine;
}

/* True if it is there; else *failed says whether that is for good, or another way may do. */
static bool write_unnamed(const char *path, const char *temp, const void *data, size_t len, bool *failed)
{
    int fd = open_unnamed(path);
    *failed = fd >= 0 && !put(fd, data, len);
    int why = errno;
    bool there = fd >= 0 && !*failed && give_name(fd, path, temp);
    if (fd >= 0)
        close(fd);
    errno = why;
    return there;
}

static bool write_special(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return fd >= 0 && fill(fd, data, len);
}

static bool write_regular(const char *path, const char *temp, const void *data, size_t len)
{
    bool failed;
    if (write_unnamed(path, temp, data, len, &failed) || failed)
        return !failed;
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0 && fill(fd, data, len) && !rename(temp, path))
        return true;
    int why = errno;
    unlink(temp);
    errno = why;
    return false;
}

bool stem_cli_write(const char *path, const void *data, size_t len)
{
    char temp[PATH_MAX];
    struct stat there;
    if (is_input(path))
        return false;
    bool exists = !stat(path, &there), special = exists && !S_ISREG(there.st_mode); /* /dev/null is not to be replaced */
    if (exists && S_ISDIR(there.st_mode)) {
        stem_cli_error("cannot write '%s': %s", path, strerror(EISDIR));
        return false;
    }
    if ((size_t)snprintf(temp, sizeof temp, "%s.tmp%ld", path, (long)getpid()) >= sizeof temp) {
        stem_cli_error("the path '%s' is too long", path);
        return false;
    }
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* a file too large is an error like any other */
    bool fine = special ? write_special(path, data, len) : write_regular(path, temp, data, len);
    int why = errno;
    signal(SIGXFSZ, before);
    if (!fine)
        stem_cli_error("cannot write '%s': %s", path, strerror(why));
    return fine;
}

bool stem_cli_make_directory(const char *path)
{
    struct stat there;
    char parent[PATH_MAX] = "";
    if (!mkdir(path, 0777) || errno == EEXIST)
        return true;
    int why = errno;
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    while (len && path[len - 1] != '/')
        len--;
    snprintf(parent, sizeof parent, "%.*s", (int)(len > 1 ? len - 1 : len), path);
    bool alone = why == ENOENT && *parent && stat(parent, &there) && errno == ENOENT;
    stem_cli_error("cannot make the directory '%s': %s%s%s", path, alone ? "there is no '" : strerror(why), alone ? parent : "",
                   alone ? "' that it could be in" : "");
    return false;
}

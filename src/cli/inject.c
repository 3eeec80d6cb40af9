/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h" /* pipe2 */

#include "cli/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY "libmainstem-inject.so"

enum { OPT_REPORT = 1000, OPT_NODES, EXIT_NO_EXEC = 126, EXIT_NO_COMMAND = 127 };

static const struct argp_option options[] = {
    {"report", OPT_REPORT, "FILE", 0, "Write everything that was counted, as JSON", 0},
    {"max-nodes", OPT_NODES, "N", 0, "Leave graphs with more nodes alone (default 50000)", 0},
    {"quiet", 'q', 0, 0, "Print no table", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stem_cli_inject *i = state->input;
    switch (key) {
    case OPT_REPORT: i->report = arg; return 0;
    case OPT_NODES: {
        char *end;
        unsigned long n = strtoul(arg, &end, 10);
        if (*end || end == arg || *arg == '-' || n == 0 || n > UINT32_MAX)
            stem_cli_usage(state, "--max-nodes takes a number above 0, not '%s'", arg);
        i->max_nodes = arg;
        return 0;
    }
    case 'q': i->quiet = true; return 0;
    case ARGP_KEY_ARGS:
        i->command = state->argv + state->next;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS: stem_cli_usage(state, "which command?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp stem_cli_inject_argp = {options, parse, 0, 0, 0, 0, 0};

/* ---- the library ---- */

static bool first_of(const char *dir, const char *pattern, char *out, size_t size)
{
    char whole[2 * PATH_MAX];
    glob_t found;
    snprintf(whole, sizeof whole, "%s/%s/" LIBRARY, dir, pattern);
    if (glob(whole, 0, NULL, &found))
        return false;
    char *path = realpath(found.gl_pathv[0], NULL);
    bool fits = path && (size_t)snprintf(out, size, "%s", path) < size;
    free(path);
    globfree(&found);
    return fits;
}

/* Beside this program: where libtool leaves it in a build tree, or in the library directory of the same prefix. */
static bool find_library(char *out, size_t size)
{
    static const char *const places[] = {".libs", "../lib/mainstem", "../lib64/mainstem", "../lib/*/mainstem", NULL};
    const char *chosen = getenv("MAINSTEM_INJECT_LIBRARY");
    if (chosen && chosen[0])
        return (size_t)snprintf(out, size, "%s", chosen) < size && !access(chosen, R_OK);
    char dir[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    if (n <= 0)
        return false;
    dir[n] = '\0';
    *strrchr(dir, '/') = '\0';
    char *last = strrchr(dir, '/');
    if (last && !strcmp(last, "/.libs") && first_of(dir, ".", out, size))
        return true;
    for (size_t i = 0; places[i]; i++)
        if (first_of(dir, places[i], out, size))
            return true;
    return false;
}

/* ---- the command ---- */

static void set_environment(const struct stem_cli_inject *i, const char *library, const char *dir)
{
    char report[PATH_MAX + 16];
    const char *other = getenv("CUDA_INJECTION64_PATH");
    if (other && other[0])
        fprintf(stderr, "mainstem: CUDA_INJECTION64_PATH was %s: replaced for this command\n", other);
    snprintf(report, sizeof report, "%s/%%p.json", dir);
    setenv("CUDA_INJECTION64_PATH", library, 1);
    setenv("MAINSTEM_INJECT", i->mode, 1);
    setenv("MAINSTEM_INJECT_REPORT", report, 1);
    if (i->max_nodes)
        setenv("MAINSTEM_INJECT_MAX_NODES", i->max_nodes, 1);
}

static volatile sig_atomic_t child_pid;

static void forward(int sig)
{
    if (child_pid > 0)
        kill((pid_t)child_pid, sig);
}

/* What a terminal sends reaches the command anyway; what is sent to this process alone is handed on. */
static void wait_out_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, hand_on = {.sa_handler = forward};
    sigaction(SIGINT, &ignore, NULL);
    sigaction(SIGQUIT, &ignore, NULL);
    sigaction(SIGTERM, &hand_on, NULL);
    sigaction(SIGHUP, &hand_on, NULL);
    sigaction(SIGUSR1, &hand_on, NULL);
    sigaction(SIGUSR2, &hand_on, NULL);
}

/* In the child: says over the pipe why the command could not be executed. */
static _Noreturn void become(char **command, int failure)
{
    execvp(command[0], command);
    int why = errno;
    if (write(failure, &why, sizeof why) != sizeof why)
        why = 0;
    _exit(why == ENOENT || why == ENOTDIR ? EXIT_NO_COMMAND : EXIT_NO_EXEC);
}

static int run_command(char **command, bool *ran)
{
    int failure[2], why = 0, status = 0;
    *ran = false;
    if (pipe2(failure, O_CLOEXEC)) {
        stem_cli_error("no pipe: %s", strerror(errno));
        return STEM_EXIT_WORLD;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(command, failure[1]);
    close(failure[1]);
    if (pid < 0) {
        close(failure[0]);
        stem_cli_error("cannot fork: %s", strerror(errno));
        return STEM_EXIT_WORLD;
    }
    child_pid = (sig_atomic_t)pid;
    wait_out_signals();
    *ran = read(failure[0], &why, sizeof why) != sizeof why;
    close(failure[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    child_pid = 0;
    if (!*ran)
        stem_cli_error("%s: %s", command[0], strerror(why));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void remove_directory(const char *dir)
{
    char pattern[PATH_MAX + 8];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*", dir);
    if (!glob(pattern, 0, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    rmdir(dir);
}

int stem_cli_inject_run(const struct stem_cli_inject *i)
{
    char library[PATH_MAX], dir[PATH_MAX];
    const char *temp = getenv("TMPDIR");
    bool ran, found = find_library(library, sizeof library);
    snprintf(dir, sizeof dir, "%.4000s/mainstem-XXXXXX", temp && temp[0] ? temp : "/tmp");
    bool have_dir = found && mkdtemp(dir);
    if (!found)
        fprintf(stderr, "mainstem: " LIBRARY " was not found (MAINSTEM_INJECT_LIBRARY names it): the command runs "
                        "as it is\n");
    else if (!have_dir)
        fprintf(stderr, "mainstem: no directory for reports (%s: %s): the command runs as it is\n", dir,
                strerror(errno));
    if (have_dir)
        set_environment(i, library, dir);
    int status = run_command(i->command, &ran);
    if (have_dir) {
        if (ran)
            stem_cli_inject_finish(i, dir, status);
        remove_directory(dir);
    }
    return status;
}

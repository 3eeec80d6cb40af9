/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/watched.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/cli.h"

bool stem_cli_has_code(const struct stem_plan *plan)
{
    for (uint32_t v = 0; v < plan->n_variants; v++)
        for (uint32_t i = 0; i < plan->variants[v].n_ops; i++)
            if (!strncmp(plan->variants[v].ops[i].kind, "kernel:", 7) || plan->variants[v].ops[i].work == STEM_WORK_EXTERN)
                return true;
    return false;
}

static struct stem_cpu_watch *watched;

/* Keeps the address; the instruction is then tried again, and ends the process. */
static void note_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    watched->fault = (uintptr_t)info->si_addr;
    watched->faulted = true;
    signal(number, SIG_DFL);
}

static void catch_faults(struct stem_cpu_watch *w)
{
    static char memory[64 * 1024];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    struct sigaction a = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    watched = w;
    sigemptyset(&a.sa_mask);
    sigaltstack(&stack, NULL); /* the kernel's own may be what has run out */
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
}

/* What the address says: how far from which operand of an inline kernel. */
static void print_where(const struct stem_cpu_watch *w, const struct stem_plan_op *op)
{
    uintptr_t least = 1 << 16;
    uint32_t nearest = 0;
    bool behind = false, within = false;
    if (!w->faulted || !w->n)
        return;
    for (uint32_t i = 0; i < w->n; i++) {
        uintptr_t begin = w->range[i].begin, end = w->range[i].end;
        uintptr_t far = w->fault >= end ? w->fault - end : w->fault < begin ? begin - w->fault : 0;
        if (far >= least)
            continue;
        least = far;
        nearest = w->range[i].operand;
        behind = w->fault >= end;
        within = !behind && w->fault >= begin;
    }
    if (least == 1 << 16)
        fputs(": it touches memory far from its operands", stderr);
    else if (nearest == STEM_CPU_SHARED)
        fprintf(stderr, ": it touches memory %llu bytes %s its dynamic shared memory, of which the kernel's smem gives it %u",
                (unsigned long long)least, behind ? "behind" : "before", op->smem);
    else if (within)
        fprintf(stderr, ": it writes operand %u of %u, which is for reading", nearest + 1, op->n_operands);
    else if (least == 0)
        fprintf(stderr, ": it touches memory right behind operand %u of %u", nearest + 1, op->n_operands);
    else
        fprintf(stderr, ": it touches memory %llu bytes %s operand %u of %u", (unsigned long long)least, behind ? "behind" : "before",
                nearest + 1, op->n_operands);
}

/* The child was ended by a signal or, which it has not said itself, by an exit(). */
static int say_end(int ended, const struct stem_cpu_watch *w)
{
    char how[96];
    if (WIFSIGNALED(ended))
        snprintf(how, sizeof how, "ended by signal %d (%s)", WTERMSIG(ended), strsignal(WTERMSIG(ended)));
    else
        snprintf(how, sizeof how, "ended the process, with status %d", WEXITSTATUS(ended));
    if (!w->plan && w->last && WIFSIGNALED(ended) && WTERMSIG(ended) != SIGKILL) {
        stem_cli_error("the run %s; op '%s' (%s), of line %u, may have damaged its memory: it is the last extern function that was called",
                       how, w->last->name, w->last->kind, w->last->line);
        return STEM_EXIT_INPUT;
    }
    if (!w->plan) {
        stem_cli_error("the run %s", how);
        return STEM_EXIT_WORLD;
    }
    const struct stem_plan_op *op = &w->plan->variants[w->variant].ops[w->op];
    fprintf(stderr, "%s:%u: error: op '%s' (%s) %s", w->plan->source ? w->plan->source : "?", op->line, op->name, op->kind, how);
    if (WIFSIGNALED(ended))
        print_where(w, op);
    fputc('\n', stderr);
    return STEM_EXIT_INPUT;
}

int stem_cli_watched(int (*work)(void *user, struct stem_cpu_watch *watch), void *user)
{
    struct stem_cpu_watch *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w == MAP_FAILED)
        stem_out_of_memory();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        stem_cli_error("cannot start a process: %s", strerror(errno));
        munmap(w, sizeof *w);
        return STEM_EXIT_WORLD;
    }
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        catch_faults(w);
        int status = work(user, w);
        if (fflush(stdout) || ferror(stdout)) {
            stem_cli_error("cannot write to standard output");
            status = STEM_EXIT_WORLD;
        }
        w->done = true;
        _exit(status);
    }
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
        continue;
    int status = WIFSIGNALED(ended) || !w->done ? say_end(ended, w) : WEXITSTATUS(ended);
    munmap(w, sizeof *w);
    return status;
}

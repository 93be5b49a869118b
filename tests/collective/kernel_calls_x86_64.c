/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By syscall user dispatch (Linux 5.11): a byte in our memory says whether calls from outside of a
 * range of code are made or become SIGSYS. That range holds the two calls that the handler makes:
 * the one it was asked for, and its own return.
 */
#include "tests/collective/kernel_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define SET_DISPATCH 59 /* PR_SET_SYSCALL_USER_DISPATCH, which older headers lack */
#define RESTORER 0x04000000ul

__asm__(".text\n"
        ".balign 16\n"
        "kernel_calls_begin:\n"
        "kernel_calls_make:\n" /* (number, args[6]) */
        "    mov %rdi, %rax\n"
        "    mov %rsi, %r11\n"
        "    mov 0(%r11), %rdi\n"
        "    mov 8(%r11), %rsi\n"
        "    mov 16(%r11), %rdx\n"
        "    mov 24(%r11), %r10\n"
        "    mov 32(%r11), %r8\n"
        "    mov 40(%r11), %r9\n"
        "    syscall\n"
        "    ret\n"
        "kernel_calls_return:\n"
        "    mov $15, %eax\n" /* rt_sigreturn */
        "    syscall\n"
        "    nop\n" /* the address after a call counts */
        "kernel_calls_end:\n");

extern const char kernel_calls_begin[], kernel_calls_end[];
long kernel_calls_make(long number, const long *args);
void kernel_calls_return(void);

/** As the kernel knows it. */
struct action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

enum kind {
    SLEEP,
    FUTEX_WAITS,
    FUTEX_WAKES,
    WRITES,
    SENDS,
    READS,
    YIELDS,
    FENCES,
    OTHERS,
    KINDS
};

static char dispatch; /* 1: calls become signals; of all threads */
static bool ready;
static atomic_ulong counts[KINDS];
static atomic_long other;

static enum kind kind_of_futex(long op)
{
    op &= FUTEX_CMD_MASK;
    return op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET ? FUTEX_WAITS
           : op == FUTEX_WAKE                          ? FUTEX_WAKES
                                                       : OTHERS;
}

static enum kind kind_of(long number, const long *args)
{
    switch (number) {
    case SYS_poll:
    case SYS_ppoll:
        return SLEEP;
    case SYS_futex:
        return kind_of_futex(args[1]);
    case SYS_write:
        return WRITES;
    case SYS_sendto:
    case SYS_sendmsg:
        return SENDS;
    case SYS_epoll_wait: /* epoll tells what woke ppoll */
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg:
        return READS;
    case SYS_sched_yield:
        return YIELDS;
    case SYS_membarrier:
        return FENCES;
    default:
        return OTHERS;
    }
}

/**
 * Reading the clock is no call at all where the kernel lends its clock; and a thread sets its name
 * and its timers as it begins, which is late where it has to wait for a core.
 */
static bool is_counted(long number, const long *args)
{
    bool clock = number == SYS_clock_gettime && args[0] == CLOCK_MONOTONIC;
    bool begins = number == SYS_prctl && (args[0] == PR_SET_NAME || args[0] == PR_SET_TIMERSLACK);

    return !clock && !begins;
}

static void on_call(int signal, siginfo_t *info, void *arg)
{
    greg_t *regs = ((ucontext_t *)arg)->uc_mcontext.gregs;
    const long args[] = {regs[REG_RDI], regs[REG_RSI], regs[REG_RDX],
                         regs[REG_R10], regs[REG_R8],  regs[REG_R9]};
    long number = info->si_syscall;

    (void)signal;
    if (is_counted(number, args)) {
        enum kind kind = kind_of(number, args);
        atomic_fetch_add(&counts[kind], 1);
        if (kind == OTHERS)
            atomic_store(&other, number);
    }
    regs[REG_RAX] = kernel_calls_make(number, args);
}

static bool watch_thread(void)
{
    return prctl(SET_DISPATCH, 1, kernel_calls_begin, kernel_calls_end - kernel_calls_begin,
                 &dispatch) == 0;
}

bool kernel_calls_init(const char **why)
{
    struct action action = {on_call, SA_SIGINFO | SA_NODEFER | RESTORER, kernel_calls_return, 0};
    *why = strerror(ENOSYS);
    if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, sizeof(action.mask)) != 0 ||
        !watch_thread()) {
        *why = "the kernel has no syscall user dispatch";
        return false;
    }
    ready = true;
    return true;
}

void kernel_calls_start(void)
{
    for (int i = 0; i < KINDS; i++)
        atomic_store(&counts[i], 0);
    atomic_store(&other, -1);
    __atomic_store_n(&dispatch, 1, __ATOMIC_SEQ_CST);
}

struct kernel_calls kernel_calls_stop(void)
{
    __atomic_store_n(&dispatch, 0, __ATOMIC_SEQ_CST);
    return (struct kernel_calls){
        counts[SLEEP], counts[FUTEX_WAITS], counts[FUTEX_WAKES], counts[WRITES], counts[SENDS],
        counts[READS], counts[YIELDS],      counts[FENCES],      counts[OTHERS], other};
}

unsigned long kernel_calls_sum(const struct kernel_calls *calls)
{
    return calls->sleeps + calls->futex_waits + calls->futex_wakes + calls->writes + calls->sends +
           calls->reads + calls->yields + calls->fences + calls->others;
}

/** What a new thread really does. */
struct start {
    void *(*routine)(void *);
    void *arg;
};

static void *start_watched(void *arg)
{
    struct start start = *(struct start *)arg;
    free(arg);
    if (!watch_thread())
        abort();
    return start.routine(start.arg);
}

/** Stands in for the C library's, so that the library's threads are counted too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*routine)(void *),
                   void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (real == NULL)
        *(void **)(uintptr_t)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (!ready)
        return real(thread, attr, routine, arg);
    struct start *start = malloc(sizeof(*start));
    if (start == NULL)
        return EAGAIN;
    *start = (struct start){routine, arg};
    int error = real(thread, attr, start_watched, start);
    if (error != 0)
        free(start);
    return error;
}

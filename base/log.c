/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/atomic_file.h"
#include "base/parse.h"

/** @return what helps, or NULL */
static const char *remedy_of(const char *call, int error)
{
    switch (error) {
    case EMFILE:
        return "raise the limit of descriptors (ulimit -n)";
    case EFBIG:
        return "raise the limit on file sizes (ulimit -f), which counts shared memory, too";
    case ENFILE:
        return "this host has no descriptors left (sysctl fs.file-max)";
    case EAGAIN:
        return strcmp(call, "pthread_create") == 0
                   ? "raise the limit of processes and threads (ulimit -u, or pids.max of the "
                     "control group)"
                   : NULL;
    case ETOOMANYREFS:
        return "too many descriptors are on their way between processes: raise their limit "
               "(ulimit -n)";
    default:
        return NULL;
    }
}

const char *wring_refusal(char *text, size_t bytes, const char *call, int error)
{
    const char *remedy = remedy_of(call, error), *why = strerrordesc_np(error);
    snprintf(text, bytes, "%s: %s%s%s", call, why != NULL ? why : "unknown error",
             remedy != NULL ? ": " : "", remedy != NULL ? remedy : "");
    return text;
}

/* ---- log ---- */

/** One whose reader is gone must not end the process: SIGPIPE is taken back. */
static void log_to_stderr(const char *module, const char *text)
{
    const struct timespec now = {0, 0};
    sigset_t broken, before, pending;
    struct wring_file_limit held; /* standard error may be a file */

    wring_file_limit_hold(&held);
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    sigpending(&pending);
    /* one call, so that lines stay whole */
    bool failed = fprintf(stderr, "wring: %s: %s\n", module, text) < 0;
    if (failed && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&broken, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    wring_file_limit_release(&held);
}

void wring_text_clean(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char second = (unsigned char)text[1];
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = '?';
        else if ((unsigned char)*text == 0xc2 && second >= 0x80 && second < 0xa0) /* U+0080... */
            text[0] = text[1] = '?';
    }
}

const char *wring_text_short(const char *text, char *out)
{
    size_t bytes = strlen(text), half = (WRING_TEXT_SHORT - sizeof("...")) / 2;
    if (bytes < WRING_TEXT_SHORT)
        memcpy(out, text, bytes + 1);
    else
        snprintf(out, WRING_TEXT_SHORT, "%.*s...%s", (int)half, text, text + bytes - half);
    return out;
}

void wring_log_line(const struct wring_log *log, enum wring_log_level level, const char *module,
                    const char *format, ...)
{
    if (log == NULL || level > log->level)
        return;

    char text[1024];
    va_list args;
    va_start(args, format);
    wring_number_vprint(text, sizeof(text), format, args);
    va_end(args);
    wring_text_clean(text);

    if (log->fn != NULL)
        log->fn(log->arg, level, module, text);
    else
        log_to_stderr(module, text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL is told: lines in its log, and its codes of wring's statuses. */
#include "dropin/nccl/nccl_own.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE 1024

void wring_nccl_say(enum wring_nccl_log_level level, const char *format, ...)
{
    char text[LINE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (wring_nccl_own.say != NULL)
        wring_nccl_own.say((int)level, WRING_NCCL_PART_INIT | WRING_NCCL_PART_NET, "nccl_say.c",
                           __LINE__, "%s", text);
    else if (level == WRING_NCCL_LOG_WARN) /* a caller without a log: standard error */
        wring_log_line(&(struct wring_log){.level = WRING_LOG_WARN}, WRING_LOG_WARN, WRING_MODULE,
                       "%s", text);
}

int wring_nccl_code_of(enum wring_status status)
{
    switch (status) {
    case WRING_OK:
        return WRING_NCCL_SUCCESS;
    case WRING_ERR_INVALID:
        return WRING_NCCL_INVALID_ARGUMENT;
    case WRING_ERR_UNSUPPORTED:
    case WRING_ERR_MISMATCH:
    case WRING_ERR_VERSION:
    case WRING_ERR_AUTH:
    case WRING_ERR_TRUNCATED:
        return WRING_NCCL_INVALID_USAGE;
    case WRING_ERR_PEER:
    case WRING_ERR_FRAME:
    case WRING_ERR_TIMEOUT:
    case WRING_ERR_CANCELLED:
    case WRING_ERR_CLOSED:
        return WRING_NCCL_REMOTE_ERROR;
    case WRING_ERR_NO_MEMORY:
    case WRING_ERR_ADDRESS:
    case WRING_ERR_DEVICE:
    case WRING_ERR_SYSTEM:
        return WRING_NCCL_SYSTEM_ERROR;
    case WRING_ERR_AGAIN:
    case WRING_ERR_BUSY:
        break;
    }
    return WRING_NCCL_INTERNAL_ERROR;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/rank_faults.h"

#include <stdio.h>

#include "tools/commands.h"

void wring_rank_log(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    struct wring_rank_faults *faults = arg;

    fprintf(stderr, "wring: %s: %s\n", module, text);
    if (level == WRING_LOG_ERROR)
        atomic_store(&faults->said, true);
}

int wring_rank_say(const struct wring_rank_faults *faults, const char *what,
                   enum wring_status status)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;

    if (faults->session == NULL || wring_session_error(faults->session, &detail) == WRING_OK)
        return wring_fail(faults->command, "%s: %s", what, wring_status_text(status));
    return wring_fail(faults->command, "rank %u: %s: %s", wring_session_rank(faults->session), what,
                      detail.text);
}

int wring_rank_fail(const struct wring_rank_faults *faults, const char *what,
                    enum wring_status status)
{
    return atomic_load(&faults->said) ? WRING_EXIT_FAILURE : wring_rank_say(faults, what, status);
}

int wring_rank_open(struct wring_rank_faults *faults, const struct wring_session_params *params,
                    uint32_t asked)
{
    struct wring_session_params logged = *params;

    logged.log = wring_rank_log;
    logged.log_arg = faults;
    enum wring_status status = wring_session_open(&logged, &faults->session);
    if (status != WRING_OK)
        return wring_rank_fail(faults, "cannot join", status);
    uint32_t ranks = wring_session_size(faults->session);
    if (asked == 0 || asked == ranks)
        return WRING_EXIT_OK;
    return wring_fail(faults->command, "the launcher started %u ranks; asked for were %u", ranks,
                      asked);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/session.h"

#include <stdio.h>

#include <wring/wring.h>

/** Every other rank knows of a lost peer: one of them speaks for all. */
static bool is_speaker(uint32_t rank, enum wring_status status,
                       const struct wring_error_detail *detail)
{
    return status != WRING_ERR_PEER || rank == (detail->rank == 0 ? 1u : 0u);
}

int demo_fail(struct wring_session *session, uint32_t rank, const char *what,
              enum wring_status status)
{
    struct wring_error_detail detail = {.rank = -1, .text = ""};
    if (session != NULL)
        wring_session_error(session, &detail);
    if (is_speaker(rank, status, &detail))
        fprintf(stderr, "wring demo: rank %u: %s: %s%s%s\n", rank, what, wring_status_text(status),
                detail.text[0] != '\0' ? ": " : "", detail.text);
    return 1;
}

/** Once a session works, its calls bring errors back, and demo_fail() says them once. */
static void log_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    const atomic_bool *settled = arg;
    if (level != WRING_LOG_ERROR || !atomic_load(settled))
        fprintf(stderr, "wring: %s: %s\n", module, text);
}

struct wring_session *demo_session_open(const char *provider, const char *link,
                                        atomic_bool *settled)
{
    char provider_text[64], fault_text[64];
    const char *settings[4] = {provider_text, "WRING_BYPASS=never", NULL, NULL};
    struct wring_session_params params = WRING_SESSION_PARAMS_INIT;
    struct wring_session *session = NULL;

    snprintf(provider_text, sizeof(provider_text), "WRING_PROVIDER=%s", provider);
    if (link != NULL) {
        snprintf(fault_text, sizeof(fault_text), "WRING_FAULT=rate=%s", link);
        settings[2] = fault_text;
    }
    params.settings = settings;
    params.log = log_line;
    params.log_arg = settled;
    enum wring_status status = wring_session_open(&params, &session);
    if (status != WRING_OK)
        fprintf(stderr, "wring demo: no session over %s: %s\n", provider,
                wring_status_text(status));
    return session;
}

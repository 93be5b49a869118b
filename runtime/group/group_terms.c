/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that the members of a group need alike. */
#include "runtime/group/group_inside.h"

#include <inttypes.h>
#include <stdio.h>

/* what immediate calls depend on besides their arguments */
static const char *const settings[] = {"WRING_CHUNK_BYTES", "WRING_FLAT_BYTES", "WRING_WINDOW",
                                       "the session's seed"};

struct wring_terms wring_group_terms(const struct wring_session *session)
{
    _Static_assert(sizeof(settings) / sizeof(settings[0]) == WRING_FORMATION_TERMS, "all of them");
    const struct wring_config *config = &session->config;
    return (struct wring_terms){
        .rank = session->rank,
        .values = {config->chunk_bytes, config->flat_bytes, config->window, session->seed}};
}

void wring_group_describe_mismatch(const struct wring_formation_word *word, char *text)
{
    const struct wring_terms *first = &word->first, *last = &word->last;
    uint32_t i = wring_formation_differs(word);

    snprintf(text, WRING_TEXT_MAX,
             "%s is %" PRIu64 " on rank %" PRIu32 " and %" PRIu64 " on rank %" PRIu32
             "; immediate calls need it alike",
             settings[i], first->values[i], first->rank, last->values[i], last->rank);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define WAIT_S 90

/** Memory of a bucket or call. */
struct run_memory {
    struct run_memory *next;
    void *foreign;
};

uint32_t run_below(struct run *run, uint32_t n)
{
    uint64_t z = run->random += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

uint64_t run_wait_ns(const struct run *run)
{
    return (run->p->wait_s > 0 ? run->p->wait_s : WAIT_S) * WRING_NS_PER_S;
}

enum wring_status run_note(struct run *run, enum wring_status status, const char *what,
                           const struct program_result *result)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    char item[256] = "";

    if (status == WRING_OK || run->why[0] != '\0')
        return status;
    if (result != NULL)
        program_name_item(run->p, result->item, item, sizeof(item));
    wring_session_error(run->session, &detail);
    snprintf(run->why, RUN_TEXT, "rank %u, operation %u: %s: %s%s%s (%s)", run->rank, run->op, what,
             wring_status_text(status), item[0] != '\0' ? ": " : "", item, detail.text);
    return status;
}

bool run_is_mine(const struct run *run, uint32_t group)
{
    return program_is_member(run->p, group, run->rank);
}

uint32_t run_my_index(const struct run *run, uint32_t group)
{
    uint32_t ranks[PROGRAM_RANKS], n = program_members(run->p, group, ranks), i = 0;
    while (i < n && ranks[i] != run->rank)
        i++;
    return i;
}

struct wring_group *run_group_of(const struct run *run, uint32_t group)
{
    return group == 0 ? wring_session_world(run->session) : run->groups[group];
}

void *run_get_memory(struct run *run, enum program_memory memory, size_t bytes)
{
    void *data = NULL;
    bytes = bytes > 0 ? bytes : 1;
    if (memory == PROGRAM_ALLOCATED)
        return wring_buffer_alloc(run->session, bytes, &data) == WRING_OK ? data : NULL;
    struct run_memory *kept = malloc(sizeof(*kept));
    data = calloc(1, bytes);
    if (kept == NULL || data == NULL) {
        free(kept);
        free(data);
        return NULL;
    }
    *kept = (struct run_memory){run->kept, data};
    run->kept = kept;
    if (memory == PROGRAM_REGISTERED &&
        wring_buffer_register(run->session, data, bytes) != WRING_OK)
        return NULL;
    return data;
}

void run_put_memory(struct run *run, enum program_memory memory, void *data)
{
    if (memory != PROGRAM_FOREIGN)
        wring_buffer_free(run->session, data);
    for (struct run_memory **at = &run->kept; *at != NULL; at = &(*at)->next)
        if ((*at)->foreign == data) {
            struct run_memory *gone = *at;
            *at = gone->next;
            free(gone->foreign);
            free(gone);
            return;
        }
}

void run_free(struct run_memory *kept)
{
    while (kept != NULL) {
        struct run_memory *next = kept->next;
        free(kept->foreign);
        free(kept);
        kept = next;
    }
}
